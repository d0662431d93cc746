// headlens generate TASK: synthetic sets with a known target.
#include <fmt/format.h>

#include <memory>

#include "command.hpp"
#include "files.hpp"
#include "headlens/error.hpp"
#include "headlens/tasks.hpp"
#include "target_options.hpp"
#include "words.hpp"

namespace headlens::app {
namespace {

struct GenerateArguments {
  CommonOptions common;
  TaskOptions task;
  std::string keys = option_of<TaskOptions>("keys").info.fallback;
  std::string output;
};

Index parse_count(const std::string& whole, std::string_view text) {
  const auto value = parse_whole<Index>(text);
  require(value.has_value(), option("keys"), ": '", whole, "' given, expected N or A:B, in whole numbers");
  return *value;
}

// "16" or "4:32".
void parse_keys(const std::string& text, TaskOptions& task) {
  const auto colon = text.find(':');
  task.min_keys = parse_count(text, std::string_view(text).substr(0, colon));
  task.max_keys = colon == std::string::npos ? task.min_keys
                                             : parse_count(text, std::string_view(text).substr(colon + 1));
}

int run(GenerateArguments& arguments) {
  TaskOptions& task = arguments.task;
  parse_keys(arguments.keys, task);
  const auto file = Files({}).output("-o", arguments.output, Stream::binary);
  const LabelledSets data = generate(task, arguments.common.execution());
  save_sets(file, data);
  double mean = 0, square = 0;
  for (const double y : data.targets.values) mean += y / static_cast<double>(task.count);
  for (const double y : data.targets.values)
    square += (y - mean) * (y - mean) / static_cast<double>(task.count);
  const Json json{{"file", arguments.output}, {"task", name(task.task)},         {"n", task.count},
                  {"dim", task.dim},          {"min_keys", task.min_keys},       {"max_keys", task.max_keys},
                  {"seed", task.seed},        {"target_seed", task.target_seed}, {"y_mean", mean},
                  {"y_variance", square}};
  print(arguments.common, json,
        fmt::format("{}: {} sets of {} (d = {}, {} keys), y has mean {:.3g} and variance {:.3g}",
                    arguments.output, task.count, name(task.task), task.dim, arguments.keys, mean, square));
  return kOk;
}

void add_shape_options(Command& command, GenerateArguments& a) {
  command.add_options(a.task, {"dim"});
  command.add_option(option_of<TaskOptions>("keys").info, [&a](const std::string& text) { a.keys = text; });
  command.add_options(a.task, {"count", "seed", "target-seed", "noise", "precision"});
  command.add_text("-o,--output", a.output, "FILE", "file to write (.npz), or - for standard output",
                   Needed::yes);
  add_common_options(command, a.common);
}

Command& add_task(Command& generate, Task task, const std::string& what) {
  auto a = std::make_shared<GenerateArguments>();
  a->task.task = task;
  Command& command = generate.add_command(name(task), what);
  add_target_options(command, a->task);
  add_shape_options(command, *a);
  command.set_action([a] { return run(*a); });
  return command;
}

}  // namespace

void add_generate(Command& app) {
  Command& command = app.add_command(
      "generate", "Write synthetic sets with a known target, or examples of an attention layer");
  command.require_command();
  command.set_footer(
      "Tokens are uniform on the unit sphere. The tokens come from --seed, the target from --target-seed.\n\n"
      "Examples:\n"
      "  headlens generate power-mean --degree 2 --dim 16 --keys 16 --count 2048 --seed 1 -o train.npz\n"
      "  headlens generate correlation --pure --matrix shift --keys 4:32 --seed 2 -o ragged.npz\n"
      "  headlens generate native --noise 0.1 -o noisy.npz");
  const auto example = [](Command& task, const char* text) {
    task.set_footer(std::string("Example:\n  headlens generate ") + text);
  };
  example(add_task(command, Task::power_mean, "(1/N) sum_i <beta, x_i>^p"),
          "power-mean --degree 2 --dim 16 --keys 16 --count 2048 --seed 1 -o train.npz");
  example(add_task(command, Task::correlation, "(1/N) sum_i <x_0, S x_i>^p <beta, x_i>"),
          "correlation --degree 1 --pure --matrix shift --count 2048 -o train.npz");
  example(
      add_task(command, Task::native, "(1/N) sum_i c_0(<x_0, S x_i>) <beta, x_i>, c_0(s) = E relu(s + g)"),
      "native --matrix identity --count 1024 -o train.npz");
  example(add_task(command, Task::query_power, "<beta, x_0>^p"),
          "query-power --degree 2 --count 1024 -o train.npz");
  example(add_task(command, Task::mixture, "(1 - g) correlation with the identity + g with the shift"),
          "mixture --weight 0.25 --pure --count 1024 -o train.npz");
  example(add_task(command, Task::ordered, "(1/N) sum_i a_i <beta, x_i>^p, a_i from 1 down to -1"),
          "ordered --degree 1 --keys 8 --count 1024 -o train.npz");
  add_generate_layer(command);
  add_generate_examples(command);
  add_generate_hard(command);
}

}  // namespace headlens::app

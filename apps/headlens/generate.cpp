// headlens generate TASK: synthetic sets with a known target.
#include <fmt/format.h>

#include <memory>

#include "command.hpp"
#include "files.hpp"
#include "headlens/error.hpp"
#include "headlens/tasks.hpp"
#include "words.hpp"

namespace headlens::app {
namespace {

struct Arguments {
  CommonOptions common;
  TaskOptions task;
  std::string keys = "16";
  std::string precision = "f64";
  std::string output;
};

Index parse_count(const std::string& whole, std::string_view text) {
  const auto value = parse_whole<Index>(text);
  require(value.has_value(), "keys: '", whole, "' given, expected N or A:B, in whole numbers");
  return *value;
}

// "16" or "4:32".
void parse_keys(const std::string& text, TaskOptions& task) {
  const auto colon = text.find(':');
  task.min_keys = parse_count(text, std::string_view(text).substr(0, colon));
  task.max_keys = colon == std::string::npos ? task.min_keys
                                             : parse_count(text, std::string_view(text).substr(colon + 1));
}

int run(Arguments& arguments) {
  TaskOptions& task = arguments.task;
  task.seed = arguments.common.seed;
  task.precision = parse<Precision>(arguments.precision);
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

void add_shape_options(CLI::App& command, Arguments& a) {
  add_whole(command, "--dim", a.task.dim, "coordinates of a token", "d")->capture_default_str();
  command.add_option("--keys", a.keys, "keys of a set: N, or A:B for ragged sets")
      ->type_name("N")
      ->capture_default_str();
  add_whole(command, "--count", a.task.count, "number of sets", "n")->capture_default_str();
  add_seed(command, a.common, "seed of the tokens, set sizes and noise");
  add_whole(command, "--target-seed", a.task.target_seed,
            "seed of the target (beta, S): equal in train and test files", "T")
      ->capture_default_str();
  command.add_option("--noise", a.task.noise, "standard deviation of Gaussian noise on y")
      ->type_name("SIGMA")
      ->capture_default_str();
  add_choice(command, "--precision", a.precision, "f32 or f64", "f32|f64");
  command.add_option("-o,--output", a.output, "file to write (.npz), or - for standard output")
      ->type_name("FILE")
      ->required();
  add_common_options(command, a.common);
}

CLI::App& add_task(CLI::App& generate, Task task, const std::string& what) {
  auto a = std::make_shared<Arguments>();
  a->task.task = task;
  CLI::App& command = *generate.add_subcommand(name(task), what);
  add_target_options(command, a->task);
  add_shape_options(command, *a);
  set_action(command, [a] { return run(*a); });
  return command;
}

}  // namespace

void add_generate(CLI::App& app) {
  CLI::App& command = *app.add_subcommand(
      "generate", "Write synthetic sets with a known target, or examples of an attention layer");
  command.require_subcommand(1);
  command.footer(
      "Tokens are uniform on the unit sphere. The tokens come from --seed, the target from --target-seed.\n\n"
      "Examples:\n"
      "  headlens generate power-mean --degree 2 --dim 16 --keys 16 --count 2048 --seed 1 -o train.npz\n"
      "  headlens generate correlation --pure --matrix shift --keys 4:32 --seed 2 -o ragged.npz\n"
      "  headlens generate native --noise 0.1 -o noisy.npz");
  const auto example = [](CLI::App& task, const char* text) {
    task.footer(std::string("Example:\n  headlens generate ") + text);
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

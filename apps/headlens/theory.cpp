// headlens theory TASK: complexity, bound and predicted learning curve, without data.
#include "headlens/theory.hpp"

#include <fmt/format.h>

#include <memory>

#include "command.hpp"
#include "headlens/error.hpp"
#include "words.hpp"

namespace headlens::app {
namespace {

struct Arguments {
  CommonOptions common;
  TheoryOptions theory;
  Index keys = 16;
  std::string model = "rfa";
  std::string samples = "64:65536";
};

Index parse_count(const std::string& whole, std::string_view text) {
  const auto value = parse_whole<Index>(text);
  require(value && *value >= 2, "samples: '", whole,
          "' given, expected A:B (A, 2A, 4A, ... up to B) or a list such as 100,300,1000, each 2 or more");
  return *value;
}

// "64:65536" or "100,300,1000".
std::vector<Index> parse_samples(const std::string& text) {
  std::vector<Index> samples;
  const std::string_view view = text;
  if (const auto colon = text.find(':'); colon != std::string::npos) {
    const Index first = parse_count(text, view.substr(0, colon)),
                last = parse_count(text, view.substr(colon + 1));
    require(first <= last, "samples: '", text, "' given, expected A:B with A at most B");
    for (Index n = first; n <= last && n > 0; n = n > last / 2 ? 0 : 2 * n) samples.push_back(n);
    return samples;
  }
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    samples.push_back(parse_count(text, view.substr(at, comma - at)));
    at = comma + 1;
  }
  return samples;
}

std::string title(const TaskOptions& task, const std::string& model) {
  const std::string degree = task.task == Task::native ? "" : fmt::format(" of degree {}", task.degree);
  return fmt::format("{}{}{}, d = {}, N = {}, {} with infinitely many heads", task.pure ? "pure " : "",
                     name(task.task), degree, task.dim, task.min_keys, model);
}

int run(Arguments& a) {
  a.theory.task.min_keys = a.theory.task.max_keys = a.keys;
  a.theory.model = parse<ModelKind>(a.model);
  a.theory.samples = parse_samples(a.samples);
  const Theory theory = evaluate_theory(a.theory, a.common.execution());
  const TaskOptions& task = a.theory.task;
  Json samples = Json::array(), bound = Json::array(), predicted = Json::array(), ridge = Json::array();
  std::string table =
      fmt::format("{}\ncomplexity {:.4g}, variance {:.4g}\n{:>12}  {:>10}  {:>15}", title(task, a.model),
                  theory.complexity, theory.variance, "samples", "bound", "predicted error");
  for (const TheoryPoint& point : theory.points) {
    const auto& error = point.predicted_error;
    samples.push_back(point.samples);
    bound.push_back(point.bound);
    predicted.push_back(error ? Json(*error) : Json(nullptr));
    ridge.push_back(error ? Json(point.ridge) : Json(nullptr));
    table += fmt::format("\n{:>12}  {:>10.4g}  {:>15}", point.samples, point.bound,
                         error ? fmt::format("{:.4g}", *error) : "-");
  }
  print(a.common,
        {{"task", name(task.task)},
         {"model", a.model},
         {"dim", task.dim},
         {"keys", a.keys},
         {"complexity", theory.complexity},
         {"variance", theory.variance},
         {"samples", samples},
         {"bound", bound},
         {"predicted_error", predicted},
         {"ridge", ridge}},
        table);
  return kOk;
}

CLI::App& add_task(CLI::App& parent, Task task, const std::string& what) {
  auto a = std::make_shared<Arguments>();
  a->theory.task.task = task;
  CLI::App& command = *parent.add_subcommand(name(task), what);
  add_target_options(command, a->theory.task);
  add_whole(command, "--dim", a->theory.task.dim, "coordinates of a token, 2 to 1000000", "d")
      ->capture_default_str();
  add_whole(command, "--keys", a->keys, "keys of a set", "N")->capture_default_str();
  command.add_option("--noise", a->theory.task.noise, "standard deviation of Gaussian noise on y")
      ->type_name("SIGMA")
      ->capture_default_str();
  // brfa is refused by the library, with the reason.
  const CLI::Validator known(
      [](std::string& text) {
        return text == "brfa" ? "" : unknown_choice(text, {"rfa", "mlp"});
      },
      "");
  command.add_option("--model", a->model, "rfa, or mlp (no attention)")
      ->check(known)
      ->type_name("rfa|mlp")
      ->capture_default_str();
  command
      .add_option("--samples", a->samples,
                  "numbers of training sets: A:B doubles from A to B; or a list A,B,C")
      ->type_name("n")
      ->capture_default_str();
  add_seed(command, a->common, "accepted everywhere; theory draws nothing");
  add_common_options(command, a->common);
  set_action(command, [a] { return run(*a); });
  return command;
}

}  // namespace

void add_theory(CLI::App& app) {
  CLI::App& command =
      *app.add_subcommand("theory", "Complexity of a target and its predicted learning curve, without data");
  command.require_subcommand(1);
  command.footer(
      "For the targets of 'headlens generate', models with infinitely many heads and the penalty chosen as "
      "in\n"
      "'headlens fit --heads inf'. The bound is sqrt(complexity / samples), in units of y; the predicted "
      "error\n"
      "is the nmse of 'headlens evaluate'.\n\n"
      "Examples:\n"
      "  headlens theory power-mean --degree 2 --dim 16 --keys 16 --samples 64:65536\n"
      "  headlens theory correlation --pure --degree 1 --samples 1000,3000,10000\n"
      "  headlens theory power-mean --degree 4 --model mlp --json");
  const auto example = [](CLI::App& task, const char* text) {
    task.footer(std::string("Example:\n  headlens theory ") + text);
  };
  example(add_task(command, Task::power_mean, "(1/N) sum_i <beta, x_i>^p"),
          "power-mean --degree 2 --dim 16 --keys 16 --samples 64:65536");
  example(add_task(command, Task::correlation, "(1/N) sum_i <x_0, S x_i>^p <beta, x_i>; S changes nothing"),
          "correlation --degree 1 --pure --samples 1000,3000,10000");
  example(add_task(command, Task::native,
                   "(1/N) sum_i c_0(<x_0, S x_i>) <beta, x_i>, c_0(s) = E relu(s + g); S changes nothing"),
          "native --dim 8 --keys 4");
  example(add_task(command, Task::query_power, "<beta, x_0>^p"), "query-power --degree 2 --model mlp");
  add_task(command, Task::mixture,
           "(1 - g) correlation + g correlation with the shift: refused, with the reason");
}

}  // namespace headlens::app

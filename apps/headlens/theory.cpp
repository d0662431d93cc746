// headlens theory TASK: complexity, bound and predicted learning curve, without data.
#include "headlens/theory.hpp"

#include <fmt/format.h>

#include <memory>

#include "command.hpp"
#include "headlens/error.hpp"
#include "target_options.hpp"
#include "words.hpp"

namespace headlens::app {
namespace {

struct TheoryArguments {
  CommonOptions common;
  TheoryOptions theory;
  std::string samples = option_of<TheoryOptions>("samples").info.fallback;
};

Index parse_sample_count(const std::string& whole, std::string_view text) {
  const auto value = parse_whole<Index>(text);
  require(value && *value >= 2, option("samples"), ": '", whole,
          "' given, expected A:B (A, 2A, 4A, ... up to B) or a list such as 100,300,1000, each 2 or more");
  return *value;
}

// "64:65536" or "100,300,1000".
std::vector<Index> parse_samples(const std::string& text) {
  std::vector<Index> samples;
  const std::string_view view = text;
  if (const auto colon = text.find(':'); colon != std::string::npos) {
    const Index first = parse_sample_count(text, view.substr(0, colon)),
                last = parse_sample_count(text, view.substr(colon + 1));
    require(first <= last, option("samples"), ": '", text, "' given, expected A:B with A at most B");
    for (Index n = first; n <= last && n > 0; n = n > last / 2 ? 0 : 2 * n) samples.push_back(n);
    return samples;
  }
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    samples.push_back(parse_sample_count(text, view.substr(at, comma - at)));
    at = comma + 1;
  }
  return samples;
}

bool is_infinite(const TheoryOptions& options) { return options.heads == kInfiniteHeads; }

std::string title(const TheoryOptions& options) {
  const TaskOptions& task = options.task;
  const std::string degree = task.task == Task::native ? "" : fmt::format(" of degree {}", task.degree);
  return fmt::format("{}{}{}, d = {}, N = {}, {} with {} heads", task.pure ? "pure " : "", name(task.task),
                     degree, task.dim, task.min_keys, name(options.model),
                     is_infinite(options) ? "infinitely many" : std::to_string(options.heads));
}

// One line per number of training sets.
std::string table(const Theory& theory, bool with_heads) {
  std::string text = fmt::format("{:>12}  {:>10}  {:>15}", "samples", "bound", "predicted error");
  if (with_heads) text += fmt::format("  {:>12}", "heads needed");
  for (const TheoryPoint& point : theory.points) {
    const auto& error = point.predicted_error;
    text += fmt::format("\n{:>12}  {:>10}  {:>15}", point.samples,
                        point.bound ? fmt::format("{:.4g}", *point.bound) : "-",
                        error ? fmt::format("{:.4g}", *error) : "-");
    if (with_heads)
      text += fmt::format("  {:>12}", point.heads_needed ? std::to_string(*point.heads_needed) : "-");
  }
  return text;
}

Json columns(const Theory& theory, bool with_heads) {
  Json samples = Json::array(), bound = Json::array(), square = Json::array(), predicted = Json::array(),
       ridge = Json::array(), needed = Json::array();
  for (const TheoryPoint& point : theory.points) {
    samples.push_back(point.samples);
    bound.push_back(optional_json(point.bound));
    square.push_back(optional_json(point.square_bound));
    predicted.push_back(optional_json(point.predicted_error));
    ridge.push_back(point.predicted_error ? Json(point.ridge) : Json(nullptr));
    needed.push_back(optional_json(point.heads_needed));
  }
  Json out{{"samples", samples},
           {"bound", bound},
           {"square_bound", square},
           {"predicted_error", predicted},
           {"ridge", ridge}};
  if (with_heads) out["heads_needed"] = needed;
  return out;
}

int run(TheoryArguments& a) {
  a.theory.samples = parse_samples(a.samples);
  const Theory theory = evaluate_theory(a.theory, a.common.execution());
  const TaskOptions& task = a.theory.task;
  Json json{{"task", name(task.task)},
            {"model", name(a.theory.model)},
            {"heads", is_infinite(a.theory) ? Json("inf") : Json(a.theory.heads)},
            {"dim", task.dim},
            {"keys", task.min_keys},
            {"complexity", theory.complexity},
            {"complexity_is_lower_bound", theory.complexity_is_lower_bound},
            {"kernel_mean", theory.kernel_mean},
            {"kernel_most", theory.kernel_most},
            {"variance", theory.variance}};
  std::string text =
      fmt::format("{}\ncomplexity {}{:.4g}, variance {:.4g}\n", title(a.theory),
                  theory.complexity_is_lower_bound ? "at least " : "", theory.complexity, theory.variance);
  if (theory.kernel_variance) {
    json["kernel_variance"] = *theory.kernel_variance;
    json["kernel_deviation"] = *theory.kernel_deviation;
    text += fmt::format("kernel of the heads: variance {:.4g}, {}% of its root mean square\n",
                        *theory.kernel_variance, percent(*theory.kernel_deviation));
  }
  const bool with_heads = a.theory.error.has_value();
  json.update(columns(theory, with_heads));
  print(a.common, json, text + table(theory, with_heads));
  return kOk;
}

Command& add_theory_task(Command& parent, Task task, const std::string& what) {
  auto a = std::make_shared<TheoryArguments>();
  a->theory.task.task = task;
  Command& command = parent.add_command(name(task), what);
  add_target_options(command, a->theory.task);
  TheoryOptions& options = a->theory;
  command.add_options(options.task, {"dim"});
  static const OptionInfo keys{.name = "keys",
                               .shown = "N",
                               .help = "keys per set",
                               .range = at_least(1),
                               .kind = OptionKind::whole,
                               .fallback = "16"};
  command.add_option(keys, [&options](const std::string& text) {
    options.task.min_keys = options.task.max_keys = read_whole(keys, text);
  });
  command.add_options(options.task, {"noise"});
  command.add_options(options, {"model", "bias-scale"});
  command.add_option(option_of<TheoryOptions>("samples").info,
                     [a = a.get()](const std::string& text) { a->samples = text; });
  command.add_options(options, {"heads", "error"});
  add_unused_seed(command, a->common, "accepted everywhere; theory draws nothing");
  add_common_options(command, a->common);
  command.set_action([a] { return run(*a); });
  return command;
}

}  // namespace

void add_theory(Command& app) {
  Command& command =
      app.add_command("theory", "Complexity of a target and its predicted learning curve, without data");
  command.require_command();
  command.set_footer(
      "For the targets of 'headlens generate' and the penalty chosen as in 'headlens fit'. The bound,\n"
      "2 sqrt(complexity E[K(x, x)] / samples) in units of y, is on the excess risk of training over a norm "
      "ball\n"
      "with a loss of slope 1; the predicted error is the nmse of 'headlens evaluate' with ridge "
      "regression.\n\n"
      "Examples:\n"
      "  headlens theory power-mean --degree 2 --dim 16 --keys 16 --samples 64:65536\n"
      "  headlens theory correlation --pure --degree 1 --samples 1000,3000,10000\n"
      "  headlens theory power-mean --degree 2 --heads 300 --error 0.2 --samples 256:4096\n"
      "  headlens theory native --model brfa --bias-scale 0.5\n"
      "  headlens theory power-mean --degree 4 --model mlp --json");
  const auto example = [](Command& task, const char* text) {
    task.set_footer(std::string("Example:\n  headlens theory ") + text);
  };
  example(add_theory_task(command, Task::power_mean, "(1/N) sum_i <beta, x_i>^p"),
          "power-mean --degree 2 --dim 16 --keys 16 --samples 64:65536");
  example(add_theory_task(command, Task::correlation,
                          "(1/N) sum_i <x_0, S x_i>^p <beta, x_i>; S changes nothing"),
          "correlation --degree 1 --pure --samples 1000,3000,10000");
  example(
      add_theory_task(command, Task::native,
                      "(1/N) sum_i c_0(<x_0, S x_i>) <beta, x_i>, c_0(s) = E relu(s + g); S changes nothing"),
      "native --dim 8 --keys 4");
  example(add_theory_task(command, Task::query_power, "<beta, x_0>^p"), "query-power --degree 2 --model mlp");
  add_theory_task(command, Task::mixture,
                  "(1 - g) correlation + g correlation with the shift: refused, with the reason");
  add_theory_task(command, Task::ordered, "(1/N) sum_i a_i <beta, x_i>^p: refused, with the reason");
}

}  // namespace headlens::app

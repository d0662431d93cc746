// headlens evaluate MODEL DATA: the error of a fitted model on labelled sets.
#include <fmt/format.h>

#include <memory>

#include "command.hpp"
#include "files.hpp"
#include "headlens/automatic.hpp"
#include "headlens/fit.hpp"
#include "headlens/ranks.hpp"

namespace headlens::app {
namespace {

struct EvaluateArguments {
  CommonOptions common;
  std::string model, data;
};

Evaluation measure(const EvaluateArguments& a, const Execution& execution) {
  if (is_automatic_model(a.model)) {
    const AutomaticModel model = load_automatic_model(a.model, execution);
    const DataLayout layout = model.sequence ? DataLayout::sequence : DataLayout::sets;
    return evaluate(model, load_labelled_sets(a.data, layout, execution), execution);
  }
  Model model;
  on_every_rank([&] { model = load_model(a.model, execution); });
  SetReader data(a.data, model.sequence ? DataLayout::sequence : DataLayout::sets, Labels::needed, execution);
  return evaluate(model, data, execution);
}

int run(const EvaluateArguments& a) {
  check_model_and_data("evaluate", a.model, a.data);
  const Evaluation result = measure(a, a.common.execution());
  if (result.accuracy) {
    print(a.common, {{"n", result.count}, {"accuracy", *result.accuracy}},
          fmt::format("accuracy {:.4f} on {} sets", *result.accuracy, result.count));
    return kOk;
  }
  const Json nmse = optional_json(result.nmse);
  print(a.common, {{"n", result.count}, {"mse", result.mse}, {"nmse", nmse}},
        fmt::format("mse {:.6g}, nmse {} on {} sets", result.mse,
                    result.nmse ? fmt::format("{:.6g}", *result.nmse) : "undefined (y is constant)",
                    result.count));
  return kOk;
}

}  // namespace

void add_evaluate(Command& app) {
  auto a = std::make_shared<EvaluateArguments>();
  Command& command = app.add_command("evaluate", "Measure the error of a fitted model");
  command.add_positional("MODEL", a->model, "model file");
  command.add_positional("DATA", a->data, "labelled sets (.npz)");
  add_unused_seed(command, a->common, "accepted everywhere; evaluation draws nothing");
  add_common_options(command, a->common);
  add_backend(command, a->common);
  command.set_footer(
      "mse is the mean squared error, nmse = mse / variance of y; classifiers report the accuracy.\n\n"
      "Example:\n"
      "  headlens evaluate model.hlm test.npz --json");
  command.set_action([a] { return run(*a); });
}

}  // namespace headlens::app

// headlens check WEIGHTS EXAMPLES: whether weights produce these outputs, under which convention, or which
// head is wrong.
#include "headlens/check.hpp"

#include <memory>

#include "command.hpp"

namespace headlens::app {
namespace {

struct CheckArguments {
  CommonOptions common;
  WeightsOptions weights;
  CheckOptions check;
  std::string file, examples, rotary;
};

int run(const CheckArguments& a) {
  const Execution execution = a.common.execution();
  HeadsSource source{.weights = a.weights};
  if (!a.rotary.empty()) source.rotary = read_rotary(a.rotary);
  const Check check = check_tensors(load_tensors(a.file, execution), source,
                                    load_check_examples(a.examples, execution), a.check, a.file, execution);
  print(a.common, Json::parse(to_json(check)), in_words(check));
  return check.fits ? kOk : kOutcome;
}

}  // namespace

void add_check(Command& app) {
  auto a = std::make_shared<CheckArguments>();
  Command& command =
      app.add_command("check", "Do these weights produce these outputs, and if not, what is wrong");
  command.add_positional("WEIGHTS", a->file, "attention weights (.safetensors or .npz) or a layer (.npz)");
  command.add_positional("EXAMPLES", a->examples,
                         "inputs and outputs (.npz: X, Y, and lengths where there is padding)");
  command.add_options(a->weights, {"prefix", "heads", "format"});
  command.add_text("--rotary", a->rotary, "SPEC",
                   "rotary positions of the weights, such as base=10000,layout=half");
  command.add_options(a->check, {"tolerance"});
  add_unused_seed(command, a->common, "accepted everywhere; checking draws nothing");
  add_common_options(command, a->common);
  command.set_footer(
      "Exit status 0 if the weights fit under one of the conventions that are tried, 3 if under none.\n\n"
      "Examples:\n"
      "  headlens check layer.npz examples.npz\n"
      "  headlens check model.safetensors examples.npz --prefix encoder.layer.0 --heads 12 --json");
  command.set_action([a] { return run(*a); });
}

}  // namespace headlens::app

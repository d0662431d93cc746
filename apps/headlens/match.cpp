// headlens match A B: which heads of two layers or checkpoints are the same, and whether one was made from
// the other.
#include "headlens/match.hpp"

#include <memory>

#include "command.hpp"
#include "headlens/error.hpp"
#include "headlens/layer_report.hpp"

namespace headlens::app {
namespace {

struct MatchArguments {
  CommonOptions common;
  WeightsOptions weights;
  std::string a, b, prefix_a, prefix_b, layers, rotary, report;
  bool across = false;
};

std::vector<LayerHeads> read(const MatchArguments& a, const std::string& file, const std::string& prefix,
                             const Execution& execution) {
  HeadsSource source{.weights = a.weights, .all_layers = a.layers == "all"};
  source.weights.prefix = prefix;
  if (!a.rotary.empty()) source.rotary = read_rotary(a.rotary);
  return load_heads(file, source, execution);
}

int run(const MatchArguments& a) {
  require(a.layers.empty() || a.layers == "all", option("layers"), ": '", a.layers, "' given, expected all");
  require(!a.across || a.layers == "all", option("across"), ": given without ", option("layers", "all"));
  if (!a.report.empty()) check_report_folder(a.report);
  const Execution execution = a.common.execution();
  const std::vector<LayerHeads> first = read(a, a.a, a.prefix_a, execution),
                                second = read(a, a.b, a.prefix_b, execution);
  const Match match = match_heads(first, second, {.across = a.across}, execution);
  if (!a.report.empty()) write_report(match, first, second, a.report, execution);
  print(a.common, Json::parse(to_json(match)), in_words(match));
  return kOk;
}

}  // namespace

void add_match(Command& app) {
  auto a = std::make_shared<MatchArguments>();
  Command& command =
      app.add_command("match", "Match the heads of two layers or checkpoints, and say how they are related");
  command.add_positional("A", a->a, "layer (.npz) or attention weights (.safetensors or .npz)");
  command.add_positional("B", a->b, "layer or attention weights to match with");
  command.add_text("--prefix-a", a->prefix_a, "P", "what the names of the weights in A begin with");
  command.add_text("--prefix-b", a->prefix_b, "P", "what the names of the weights in B begin with");
  command.add_options(a->weights, {"heads", "format"});
  command.add_text("--layers", a->layers, "all", "match all layers of two checkpoints, in their order");
  command.add_flag("--across", a->across, "match heads with heads of any layer; needs --layers all");
  command.add_text("--rotary", a->rotary, "SPEC",
                   "rotary positions of the weights, such as base=10000,layout=half");
  add_report_folder(command, a->report);
  add_unused_seed(command, a->common, "accepted everywhere; matching draws nothing");
  add_common_options(command, a->common);
  command.set_footer(
      "Heads are compared by Theta = Q K^T (with the query bias) and W = V O, which no change of basis "
      "inside a "
      "head\n"
      "changes. Verdicts: same (every distance at most 1e-5), derived (closer than unrelated layers are), "
      "unrelated.\n\n"
      "Examples:\n"
      "  headlens match layer.npz other.npz\n"
      "  headlens match a.safetensors b.safetensors --heads 12 --layers all --across --json\n"
      "  headlens match layer.npz other.npz --report page");
  command.set_action([a] { return run(*a); });
}

}  // namespace headlens::app

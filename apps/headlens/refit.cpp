// headlens refit LAYER|EXAMPLES: the best smaller layer for given inputs.
#include "headlens/refit.hpp"

#include <algorithm>
#include <memory>

#include "command.hpp"
#include "files.hpp"
#include "headlens/arrays.hpp"
#include "headlens/error.hpp"
#include "headlens/layer_report.hpp"

namespace headlens::app {
namespace {

struct RefitArguments {
  CommonOptions common;
  WeightsOptions weights;
  RefitOptions refit;
  RefitInputs inputs;
  std::string file, tokens, rotary, like, output, report;
};

OptionInfo layer_heads_info() {
  return {.name = "layer-heads",
          .shown = "m",
          .help = "number of heads that the weights in LAYER are cut into",
          .unset = "as the shapes tell",
          .range = at_least(1),
          .kind = OptionKind::whole};
}

// A layer file, or heads on an axis of their own: the shapes tell how many heads there are.
bool tells_heads(const NamedArrays& arrays) {
  return std::ranges::any_of(arrays, [](const auto& item) {
    return item.first == "Theta" || item.first == "Q" ||
           (item.first.ends_with("W_Q") && item.second.rank() == 3);
  });
}

// The file holds labelled examples, and no layer.
bool holds_examples(const NamedArrays& arrays) { return arrays.contains("X") && arrays.contains("Y"); }

// The result, and the tokens that a page shows.
struct Refitted {
  Refit refit;
  Tokens tokens;
};

Refitted refit_examples(const RefitArguments& a, const Execution& execution) {
  require(a.tokens.empty(), option("tokens"), ": given, but ", a.file, " has tokens with labels of its own");
  const Examples examples = load_examples(a.file, execution);
  return {refit(examples, a.refit, execution), {examples.x, examples.lengths}};
}

Refitted refit_layer(const RefitArguments& a, NamedArrays arrays, const Execution& execution) {
  require(a.weights.heads > 0 || tells_heads(arrays), option("layer-heads"),
          ": none given, but the shapes of weights do not tell their number of heads");
  HeadsSource source{.weights = a.weights};
  if (!a.rotary.empty()) source.rotary = read_rotary(a.rotary);
  const LayerHeads layer = find_heads(std::move(arrays), source, a.file, execution).front();
  Tokens tokens =
      a.tokens.empty() ? draw_tokens(layer.dim(), a.inputs, a.refit.seed) : load_tokens(a.tokens, execution);
  Refit result = refit(layer, tokens, a.refit, execution);
  return {std::move(result), std::move(tokens)};
}

void save(const RefitArguments& a, const std::filesystem::path& file, const Refit& result,
          const Execution& execution) {
  if (a.like.empty()) return write_npz(file, tensors_of(result));
  NamedArrays tensors = export_refit(result, load_tensors(a.like, execution), a.weights, a.like);
  if (a.output.ends_with(".npz"))
    write_npz(file, tensors);
  else
    write_safetensors(file, {std::move(tensors), {}});
}

int run(const RefitArguments& a) {
  a.refit.validate();
  a.inputs.validate();
  require(a.like.empty() || a.output.ends_with(".npz") || a.output.ends_with(".safetensors"),
          "-o: ", a.output, " given, expected .safetensors or .npz");
  const auto file = Files({a.file, a.tokens, a.like}).output("-o", a.output, Stream::refused);
  if (!a.report.empty()) check_report_folder(a.report);
  const Execution execution = a.common.execution();
  NamedArrays arrays = load_tensors(a.file, execution);
  const auto [result, tokens] =
      holds_examples(arrays) ? refit_examples(a, execution) : refit_layer(a, std::move(arrays), execution);
  save(a, file, result, execution);
  if (!a.report.empty()) write_report(result, tokens, a.report, execution);
  print(a.common, Json::parse(to_json(result)), in_words(result));
  return kOk;
}

}  // namespace

void add_refit(Command& app) {
  auto a = std::make_shared<RefitArguments>();
  Command& command = app.add_command("refit",
                                     "Find the best layer with fewer heads, a smaller rank or "
                                     "shared keys and values");
  command.add_positional("LAYER", a->file,
                         "layer (.npz), attention weights (.safetensors or .npz), or examples (.npz: X, Y)");
  command.add_options(a->refit, {"heads", "rank", "kv-groups"});
  command.add_text("--tokens", a->tokens, "FILE",
                   "inputs of the layer (.npz: X (n,k,d), and lengths (n) where there is padding); without, "
                   "tokens at random");
  command.add_options(a->inputs, {"inputs", "count", "length"});
  command.add_option(layer_heads_info(), [a](const std::string& text) {
    a->weights.heads = static_cast<Index>(read_whole(layer_heads_info(), text));
  });
  command.add_options(a->weights, {"prefix", "format"});
  command.add_text("--rotary", a->rotary, "SPEC",
                   "rotary positions of the weights, such as base=10000,layout=half");
  command.add_options(a->refit, {"mask", "steps", "time-limit", "seed"});
  command.add_text("-o,--output", a->output, "FILE",
                   "layer to write (.npz: Q, K, V, O), or the checkpoint with --like", Needed::yes);
  command.add_text("--like", a->like, "WEIGHTS",
                   "write a checkpoint in this layout instead, with tensors of the smaller shapes");
  add_report_folder(command, a->report);
  add_backend(command, a->common);
  add_common_options(command, a->common);
  command.set_footer(
      "The table compares the refit with pruning, truncation and averaging of the weights alone: parameters "
      "against\n"
      "the error |F - Y| / |Y| on held-out examples. A star marks ways that no other way beats in both.\n\n"
      "Examples:\n"
      "  headlens refit layer.npz --heads 4 -o smaller.npz\n"
      "  headlens refit layer.npz --rank 8 --tokens inputs.npz -o smaller.npz --report page\n"
      "  headlens refit model.safetensors --prefix encoder.layer.0 --layer-heads 12 --kv-groups 4 "
      "--like model.safetensors -o grouped.safetensors\n"
      "  headlens refit examples.npz --heads 2 --rank 4 -o layer.npz");
  command.set_action([a] { return run(*a); });
}

}  // namespace headlens::app

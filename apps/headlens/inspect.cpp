// headlens inspect LAYER | --weights FILE: what the heads look like, and how often they agree.
#include "headlens/inspect.hpp"

#include <fmt/format.h>

#include <memory>

#include "command.hpp"
#include "conditions_report.hpp"
#include "files.hpp"
#include "fourier_report.hpp"
#include "headlens/arrays.hpp"
#include "headlens/error.hpp"
#include "headlens/files.hpp"
#include "headlens/match.hpp"

namespace headlens::app {
namespace {

struct InspectArguments {
  CommonOptions common;
  InspectOptions inspect;
  WeightsOptions weights;
  std::optional<Index> fourier;
  std::string layer, file, output, fourier_output;
  std::string q, k, v, o;
  bool tails = false, bias = false;

  bool separate() const { return !(q.empty() && k.empty() && v.empty() && o.empty()); }
};

AttentionLayer read_layer(const InspectArguments& a, const Execution& execution) {
  if (a.layer.empty()) {
    const WeightsOptions& options = a.weights;
    require(options.heads > 0, option("heads"), ": none given, but weights are cut into heads by --heads");
    options.validate();
    return layer_from_weights(
        a.separate() ? load_weights(a.q, a.k, a.v, a.o, execution) : load_weights(a.file, options, execution),
        options, execution);
  }
  AttentionLayer layer = load_layer(a.layer, execution);
  return a.weights.restrict_dim > 0 ? restrict_layer(layer, a.weights.restrict_dim) : layer;
}

// The layer to write: with the biases that the weights have, where these are asked for.
AttentionLayer with_biases(AttentionLayer layer, const InspectArguments& a, const Execution& execution) {
  if (!a.bias) return layer;
  const LayerHeads heads =
      heads_from_weights(load_weights(a.file, a.weights, execution), a.weights, {}, execution);
  layer.query_bias = heads.query_bias, layer.constant = heads.constant;
  layer.variant.bias = !heads.query_bias.empty() || !heads.constant.empty();
  return check_layer(std::move(layer), a.file);
}

void check_arguments(const InspectArguments& a) {
  const int sources = !a.layer.empty() + !a.file.empty() + a.separate();
  require(sources == 1, "inspect: ", sources,
          " sources given, expected one of LAYER, --weights, or --weights-q, -k, -v and -o");
  require(!a.separate() || !(a.q.empty() || a.k.empty() || a.v.empty() || a.o.empty()),
          "inspect: --weights-q, --weights-k, --weights-v and --weights-o go together");
  require(!a.bias || (!a.file.empty() && !a.output.empty() && a.weights.restrict_dim == 0),
          "inspect: ", option("bias"), " goes with --weights FILE and -o, without --restrict");
  require(!a.separate() || (a.weights.prefix.empty() && a.weights.format == WeightsFormat::automatic),
          "inspect: --format and --prefix go with --weights FILE");
  require(a.layer.empty() || (a.weights.heads == 0 && !a.weights.layer && a.weights.prefix.empty() &&
                              a.weights.format == WeightsFormat::automatic),
          "inspect: --heads, --layer, --format and --prefix go with weights; a layer file has its heads");
  require(a.fourier_output.empty() || a.fourier, option("fourier-out"), ": given without --fourier K");
  a.inspect.validate();
}

Json share_json(const Share& share) {
  return {{"share", share.value}, {"low", share.low}, {"high", share.high}};
}

Json agreement_json(const Agreement& agreement) {
  Json alike = Json::array();
  for (const AlikeShare& entry : agreement.alike) {
    Json item = share_json(entry.share);
    item["eps"] = entry.eps;
    alike.push_back(item);
  }
  return {{"alike", alike}, {"sparse_matched", share_json(agreement.sparse_matched)}};
}

// What is found beside the heads.
struct Findings {
  Inspection inspection;
  std::optional<HiddenLabel> label;
  std::optional<Fourier> fourier;
  Conditions conditions;
  std::optional<Tails> tails;
};

Json inspection_json(const InspectArguments& a, const Findings& found) {
  const Inspection& result = found.inspection;
  Json heads = Json::array(), closest, agreement;
  for (const HeadSummary& head : result.per_head)
    heads.push_back({{"scale", head.scale},
                     {"effective_rank", head.effective_rank},
                     {"w_norm", head.w_norm},
                     {"diagonal_mean", head.diagonal_mean},
                     {"off_diagonal_deviation", head.off_diagonal_deviation},
                     {"identity_cosine", head.identity_cosine}});
  if (result.closest)
    closest = {{"a", result.closest->a}, {"b", result.closest->b}, {"distance", result.closest->distance}};
  if (result.agreement) agreement = agreement_json(*result.agreement);
  return {{"heads", result.heads},
          {"distinct_heads", result.distinct_heads},
          {"dim", result.dim},
          {"outputs", result.outputs},
          {"per_head", heads},
          {"closest_pair", closest},
          {"tokens", a.inspect.tokens},
          {"samples", a.inspect.samples},
          {"agreement", agreement},
          {"conditions", conditions_json(found.conditions)},
          {"tails", found.tails ? tails_json(*found.tails) : Json(nullptr)},
          {"label", label_json(found.label)},
          {"fourier",
           found.fourier ? fourier_json(*found.fourier, result.dim, found.label.has_value()) : Json(nullptr)},
          {"file", a.output.empty() ? Json(nullptr) : Json(a.output)}};
}

std::string share_text(const Share& share) {
  return fmt::format("{:8.4f} % (95% interval: {:.4f} to {:.4f})", 100 * share.value, 100 * share.low,
                     100 * share.high);
}

std::string inspection_text(const InspectArguments& a, const Findings& found) {
  const Inspection& result = found.inspection;
  std::string text = fmt::format("heads {} ({} distinct), d = {}, e = {}\n", result.heads,
                                 result.distinct_heads, result.dim, result.outputs);
  text += fmt::format("{:>4} {:>12} {:>15} {:>10} {:>10} {:>10} {:>11}", "head", "logit scale",
                      "effective rank", "|W|", "diagonal", "off-diag.", "cosine to I");
  for (std::size_t i = 0; i < result.per_head.size(); ++i) {
    const HeadSummary& head = result.per_head[i];
    text += fmt::format("\n{:>4} {:>12.4g} {:>15.2f} {:>10.4g} {:>10.3g} {:>10.3g} {:>11.3f}", i, head.scale,
                        head.effective_rank, head.w_norm, head.diagonal_mean, head.off_diagonal_deviation,
                        head.identity_cosine);
  }
  if (result.closest)
    text += fmt::format("\nclosest heads: {} and {}; their Theta differ by {:.3g} of the larger one",
                        result.closest->a, result.closest->b, result.closest->distance);
  if (result.agreement) {
    text +=
        fmt::format("\nhow often all heads attend alike, over {} rows of random sign inputs of {} tokens:",
                    a.inspect.samples, a.inspect.tokens);
    for (const AlikeShare& entry : result.agreement->alike)
      text += fmt::format("\n  up to {:<4} in total variation   {}", entry.eps, share_text(entry.share));
    text +=
        fmt::format("\n  to one and the same token      {}", share_text(result.agreement->sparse_matched));
  }
  text += conditions_text(found.conditions, result);
  if (found.tails) text += tails_text(*found.tails, a.inspect.samples);
  if (found.label) text += label_text(*found.label);
  if (found.fourier) text += fourier_text(*found.fourier, result.dim, found.label.has_value());
  if (!a.output.empty()) text += fmt::format("\nwritten to {}", a.output);
  return text;
}

int run(const InspectArguments& a) {
  check_arguments(a);
  Files files({a.layer, a.file, a.q, a.k, a.v, a.o});
  const auto file = files.output("-o", a.output, Stream::binary);
  const auto fourier_file = files.output("--fourier-out", a.fourier_output, Stream::refused);
  const Execution execution = a.common.execution();
  const AttentionLayer layer = read_layer(a, execution);
  const InspectOptions& options = a.inspect;
  Findings found{inspect_layer(layer, options, execution), std::nullopt, std::nullopt,
                 layer_conditions(layer, execution), std::nullopt};
  if (a.tails) found.tails = logit_tails(layer, options, execution);
  if (!a.layer.empty() && a.weights.restrict_dim == 0) found.label = load_label(a.layer, execution);
  if (a.fourier)
    found.fourier = fourier_coefficients(
        layer, {.degree = *a.fourier, .samples = options.samples, .seed = options.seed}, execution);
  FileGroup together;
  if (!a.fourier_output.empty())
    write_npz(fourier_file, {{"subsets", found.fourier->subsets}, {"values", found.fourier->values}});
  if (!a.output.empty()) save_layer(file, with_biases(layer, a, execution));
  together.commit();
  print(a.common, inspection_json(a, found), inspection_text(a, found));
  return kOk;
}

void add_weights_options(Command& command, InspectArguments& a) {
  command.add_text("--weights", a.file, "FILE",
                   "attention weights to read instead of a layer (.safetensors or .npz)");
  command.add_options(a.weights, {"format", "prefix"});
  command.add_text("--weights-q", a.q, "FILE",
                   "W_Q in a file of its own (.npy: (out, in), q = W_Q x); needs the next three options");
  command.add_text("--weights-k", a.k, "FILE", "W_K in a file of its own");
  command.add_text("--weights-v", a.v, "FILE", "W_V in a file of its own");
  command.add_text("--weights-o", a.o, "FILE", "W_O in a file of its own");
  command.add_options(a.weights, {"heads", "layer", "restrict"});
  command.add_flag("--bias", a.bias, "keep the biases of the weights in the layer that -o writes");
}

void add_fourier_options(Command& command, InspectArguments& a) {
  static const OptionInfo degree{
      .name = "fourier",
      .shown = "K",
      .help = "Fourier coefficients of the outputs up to this degree; exact for d <= 12, else from samples",
      .kind = OptionKind::whole};
  command.add_option(degree, [&a](const std::string& text) { a.fourier = read_whole(degree, text); });
  command.add_text("--fourier-out", a.fourier_output, "FILE",
                   "file for all Fourier coefficients (.npz: subsets, values)");
}

}  // namespace

void add_inspect(Command& app) {
  auto a = std::make_shared<InspectArguments>();
  Command& command = app.add_command("inspect", "Describe the heads of a layer, or of attention weights");
  command.add_positional("LAYER", a->layer, "layer (.npz: Theta, W)", Needed::no);
  add_weights_options(command, *a);
  command.add_text("-o,--output", a->output, "LAYER", "layer to write (.npz: Theta, W)");
  command.add_options(a->inspect, {"tokens", "samples"});
  command.add_flag("--tails", a->tails,
                   "the distribution of the logits on random signs, beside the Gaussian one");
  add_fourier_options(command, *a);
  command.add_options(a->inspect, {"seed"});
  add_common_options(command, a->common);
  command.set_footer(
      "Printed for every head: the logit scale |Theta| (the standard deviation of the logits on random "
      "signs),\n"
      "the effective rank of Theta, |W|, the mean of the diagonal of Theta, the standard deviation of its "
      "other\n"
      "entries, and the cosine of Theta with the identity. Then how often random inputs make all heads "
      "attend alike, and how often\n"
      "all heads put more than 0.95 of their attention on one and the same token. Last, the conditions of "
      "the "
      "proof\n"
      "that sculpting works, each with its number, and a cross where the number is one with which sculpting "
      "works.\n\n"
      "Examples:\n"
      "  headlens inspect layer.npz --tokens 8\n"
      "  headlens inspect layer.npz --tails --samples 1000000\n"
      "  headlens inspect hard-layer.npz --fourier 5\n"
      "  headlens inspect --weights model.safetensors --prefix encoder.layer.0 --heads 12 --bias -o "
      "layer.npz");
  command.set_action([a] { return run(*a); });
}

}  // namespace headlens::app

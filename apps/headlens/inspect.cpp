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
#include "words.hpp"

namespace headlens::app {
namespace {

struct Arguments {
  CommonOptions common;
  InspectOptions inspect;
  WeightsOptions weights;
  std::optional<Index> heads, restrict_dim, fourier;
  std::string layer, file, output, fourier_output;
  std::string q, k, v, o;
  bool tails = false;

  bool separate() const { return !(q.empty() && k.empty() && v.empty() && o.empty()); }
};

AttentionLayer read_layer(const Arguments& a, const Execution& execution) {
  if (a.layer.empty()) {
    WeightsOptions options = a.weights;
    require(a.heads.has_value(), "heads: none given, but weights are cut into heads by --heads");
    options.heads = *a.heads;
    options.restrict_dim = a.restrict_dim.value_or(0);
    options.validate();
    return layer_from_weights(
        a.separate() ? load_weights(a.q, a.k, a.v, a.o, execution) : load_weights(a.file, options, execution),
        options, execution);
  }
  AttentionLayer layer = load_layer(a.layer, execution);
  return a.restrict_dim ? restrict_layer(layer, *a.restrict_dim) : layer;
}

void check_arguments(const Arguments& a) {
  const int sources = !a.layer.empty() + !a.file.empty() + a.separate();
  require(sources == 1, "inspect: ", sources,
          " sources given, expected one of LAYER, --weights, or --weights-q, -k, -v and -o");
  require(!a.separate() || !(a.q.empty() || a.k.empty() || a.v.empty() || a.o.empty()),
          "inspect: --weights-q, --weights-k, --weights-v and --weights-o go together");
  require(!a.separate() || (a.weights.prefix.empty() && a.weights.format == WeightsFormat::automatic),
          "inspect: --format and --prefix go with --weights FILE");
  require(a.layer.empty() || (!a.heads && !a.weights.layer && a.weights.prefix.empty() &&
                              a.weights.format == WeightsFormat::automatic),
          "inspect: --heads, --layer, --format and --prefix go with weights; a layer file has its heads");
  require(a.restrict_dim.value_or(1) >= 1, "restrict: ", a.restrict_dim.value_or(1),
          " given, expected 1 or more");
  require(a.fourier_output.empty() || a.fourier, "fourier-out: given without --fourier K");
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

Json inspection_json(const Arguments& a, const Findings& found) {
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

std::string inspection_text(const Arguments& a, const Findings& found) {
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

int run(const Arguments& a) {
  check_arguments(a);
  Files files({a.layer, a.file, a.q, a.k, a.v, a.o});
  const auto file = files.output("-o", a.output, Stream::binary);
  const auto fourier_file = files.output("--fourier-out", a.fourier_output, Stream::refused);
  const Execution execution = a.common.execution();
  const AttentionLayer layer = read_layer(a, execution);
  InspectOptions options = a.inspect;
  options.seed = a.common.seed;
  Findings found{inspect_layer(layer, options, execution), std::nullopt, std::nullopt,
                 layer_conditions(layer, execution), std::nullopt};
  if (a.tails) found.tails = logit_tails(layer, options, execution);
  if (!a.layer.empty() && !a.restrict_dim) found.label = load_label(a.layer, execution);
  if (a.fourier)
    found.fourier = fourier_coefficients(
        layer, {.degree = *a.fourier, .samples = options.samples, .seed = options.seed}, execution);
  FileGroup together;
  if (!a.fourier_output.empty())
    write_npz(fourier_file, {{"subsets", found.fourier->subsets}, {"values", found.fourier->values}});
  if (!a.output.empty()) save_layer(file, layer);
  together.commit();
  print(a.common, inspection_json(a, found), inspection_text(a, found));
  return kOk;
}

void add_weights_options(CLI::App& command, Arguments& a) {
  const std::map<std::string, WeightsFormat> formats{{"auto", WeightsFormat::automatic},
                                                     {"factors", WeightsFormat::factors},
                                                     {"torch", WeightsFormat::torch},
                                                     {"hf", WeightsFormat::hugging_face}};
  command
      .add_option("--weights", a.file, "attention weights to read instead of a layer (.safetensors or .npz)")
      ->type_name("FILE");
  add_choice(command, "--format", a.weights.format, "how the file names its weights", "auto|factors|torch|hf",
             formats);
  command
      .add_option("--prefix", a.weights.prefix,
                  "what the names of the weights begin with, where a file has several layers")
      ->type_name("P");
  command
      .add_option("--weights-q", a.q,
                  "W_Q in a file of its own (.npy: (out, in), q = W_Q x); needs the next three options")
      ->type_name("FILE");
  command.add_option("--weights-k", a.k, "W_K in a file of its own")->type_name("FILE");
  command.add_option("--weights-v", a.v, "W_V in a file of its own")->type_name("FILE");
  command.add_option("--weights-o", a.o, "W_O in a file of its own")->type_name("FILE");
  add_whole(command, "--heads", a.heads, "number of heads that the weights are cut into", "m");
  add_whole(command, "--layer", a.weights.layer,
            "layer to read from weights of shape (layer, out, in), counted from 0", "i");
}

}  // namespace

void add_inspect(CLI::App& app) {
  auto a = std::make_shared<Arguments>();
  CLI::App& command =
      *app.add_subcommand("inspect", "Describe the heads of a layer, or of attention weights");
  command.add_option("LAYER", a->layer, "layer (.npz: Theta, W)");
  add_weights_options(command, *a);
  add_whole(command, "--restrict", a->restrict_dim, "keep the first coordinates of Theta and W only", "r");
  command.add_option("-o,--output", a->output, "layer to write (.npz: Theta, W)")->type_name("LAYER");
  add_whole(command, "--tokens", a->inspect.tokens, "number of tokens of a sampled input", "k")
      ->capture_default_str();
  add_whole(command, "--samples", a->inspect.samples,
            "number of rows to sample, each from an input of its own", "n")
      ->capture_default_str();
  command.add_flag("--tails", a->tails,
                   "the distribution of the logits on random signs, beside the Gaussian one");
  add_whole(command, "--fourier", a->fourier,
            "Fourier coefficients of the outputs up to this degree; exact for d <= 12, else from samples",
            "K");
  command
      .add_option("--fourier-out", a->fourier_output,
                  "file for all Fourier coefficients (.npz: subsets, values)")
      ->type_name("FILE");
  add_seed(command, a->common, "seed of the sampled inputs");
  add_common_options(command, a->common);
  command.footer(
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
      "  headlens inspect --weights model.safetensors --prefix encoder.layer.0 --heads 12 -o layer.npz");
  set_action(command, [a] { return run(*a); });
}

}  // namespace headlens::app

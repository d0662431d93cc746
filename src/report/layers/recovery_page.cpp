// A recovery as a page: the certificate in plain words, what to do next, and the heads.
#include <fmt/format.h>

#include "headlens/certificate.hpp"
#include "headlens/layer_report.hpp"
#include "report/escape.hpp"
#include "report/layers/layer_page.hpp"

namespace headlens {
namespace {

using namespace report;

Mood mood_of(RecoveryStatus status) {
  switch (status) {
    case RecoveryStatus::recovered:
      return Mood::good;
    case RecoveryStatus::approximate:
      return Mood::middling;
    case RecoveryStatus::best_fit:
    case RecoveryStatus::needs_more_examples:
      return Mood::open;
    default:
      return Mood::bad;
  }
}

std::vector<std::string> words_of(const Certificate& c, bool has_layer) {
  std::vector<std::string> out;
  if (c.status == RecoveryStatus::recovered)
    out.emplace_back(fmt::format(
        "The {} heads below are those of the layer that made the labels: the layer predicts "
        "held-out examples to a relative error of {}, and no other heads do. The table bounds the "
        "error of every head.",
        c.heads, number(c.held_out_error)));
  if (c.status == RecoveryStatus::approximate)
    out.emplace_back(
        "The labels are known up to noise, and so are the heads: the bounds in the table hold with "
        "probability 0.95. More examples make them smaller.");
  if (c.status == RecoveryStatus::best_fit)
    out.emplace_back(
        "This is the best layer of its size for these labels. Nothing is said about where the labels come "
        "from.");
  if (!c.reason.empty()) out.push_back(c.reason);
  const std::string advice = c.advice.spelled(on_command_line);
  if (!advice.empty()) out.emplace_back("What to do next: " + advice);
  if (!has_layer)
    out.emplace_back("The figures show the best layer that was found; its heads are not certified.");
  return out;
}

std::vector<std::vector<std::string>> heads_table(const Certificate& c) {
  if (c.per_head.empty()) return {};
  std::vector<std::vector<std::string>> out{
      {"head", "logit scale", "effective rank", "|W|", "error of Theta at most", "error of W at most"}};
  for (std::size_t i = 0; i < c.per_head.size(); ++i) {
    const HeadReport& head = c.per_head[i];
    out.push_back({std::to_string(i), number(head.scale), number(head.effective_rank), number(head.w_norm),
                   number(head.theta_bar, 2), number(head.w_bar, 2)});
  }
  return out;
}

// The layer to show, certified or not.
std::optional<LayerHeads> shown_heads(const Recovery& recovery) {
  const auto from = [](const FactoredLayer& f) {
    return LayerHeads{.name = "layer", .q = f.q, .k = f.k, .v = f.v, .o = f.o, .mask = Mask::none};
  };
  if (recovery.layer) return heads_of(*recovery.layer, "layer");
  if (recovery.factors) return from(*recovery.factors);
  if (recovery.best) return heads_of(*recovery.best, "layer");
  if (recovery.best_factors) return from(*recovery.best_factors);
  return std::nullopt;
}

}  // namespace

std::filesystem::path write_report(const Recovery& recovery, const Examples& examples,
                                   const std::filesystem::path& folder, const Execution& execution) {
  const Certificate& c = recovery.certificate;
  const std::optional<LayerHeads> heads = shown_heads(recovery);
  LayerPage page{"Heads of an attention layer", name(c.status), mood_of(c.status)};
  page.words = words_of(c, recovery.has_layer() || !heads);
  page.facts = {{"heads", std::to_string(c.heads)},
                {"held-out error", c.held_out > 0 ? number(c.held_out_error) : "no example was held out"},
                {"training error", number(c.train_error)},
                {"examples", fmt::format("{}, of which {} are held out", c.examples, c.held_out)},
                {"equations per unknown", number(c.examples_per_unknown)},
                {"kind of layer", name(c.variant)}};
  if (c.noise) page.facts.emplace_back("noise of the labels", number(*c.noise));
  page.table = heads_table(c);
  page.details = in_words(c, on_command_line);
  if (heads) {
    page.figures.push_back(spectra(*heads, "spectra", "Spectra of the heads"));
    page.figures.push_back(attention(*heads, {examples.x, examples.lengths}));
  }
  add_trace(c.trace, page);
  return write_page(page, folder, execution);
}

}  // namespace headlens

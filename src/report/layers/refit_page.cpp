// A refit as a page: parameters against held-out error, and the heads of the smaller layer.
#include <fmt/format.h>

#include "headlens/layer_report.hpp"
#include "report/escape.hpp"
#include "report/layers/layer_page.hpp"

namespace headlens {
namespace {

using namespace report;

std::vector<std::vector<std::string>> table_of(const Refit& refit) {
  std::vector<std::vector<std::string>> out{
      {"way", "heads", "rank", "groups", "parameters", "held-out error", "front"}};
  for (const RefitRow& row : refit.rows)
    out.push_back({row.name, std::to_string(row.shape.heads), std::to_string(row.shape.rank),
                   std::to_string(row.shape.kv_groups), fmt::format("{:.0f}", row.shape.parameters),
                   number(row.held_out_error), row.on_front ? "yes" : ""});
  return out;
}

Chart pareto(const Refit& refit) {
  Chart chart{"parameters", "held-out error", {{"", {}}}, false};
  for (const RefitRow& row : refit.rows)
    if (row.held_out_error > 1e-12)
      chart.panels[0].lines.push_back({row.name, {row.shape.parameters}, {row.held_out_error}});
  return chart;
}

}  // namespace

std::filesystem::path write_report(const Refit& refit, const Tokens& tokens,
                                   const std::filesystem::path& folder, const Execution& execution) {
  const bool done = refit.status == RefitStatus::refitted;
  LayerPage page{"A smaller attention layer", name(refit.status), done ? Mood::good : Mood::middling};
  page.words = {
      fmt::format("{} heads of rank {} with {} groups of keys and values: {:.0f} parameters, and a relative "
                  "error of {} on {} held-out examples.",
                  refit.shape.heads, refit.shape.rank, refit.shape.kv_groups, refit.shape.parameters,
                  number(refit.held_out_error), refit.held_out)};
  if (refit.train_error < 0.8 * refit.held_out_error)
    page.words.emplace_back(
        "What to do next: give more examples. The training error is much smaller than the held-out error, so "
        "the layer has learned its examples.");
  else if (!done)
    page.words.emplace_back("What to do next: allow more time; the limit ended the refit on its way.");
  else
    page.words.emplace_back(
        "What to do next: if the error is too large, allow more heads, a larger rank or more groups; if "
        "small "
        "enough, try fewer.");
  page.facts = {{"held-out error", number(refit.held_out_error)},
                {"training error", number(refit.train_error)},
                {"examples", fmt::format("{} of {} tokens, of which {} are held out", refit.examples,
                                         refit.tokens, refit.held_out)},
                {"began with", refit.start}};
  page.table = table_of(refit);
  page.details = in_words(refit);
  if (const Chart chart = pareto(refit); can_draw(chart))
    page.figures.push_back(figure_of("pareto", "Parameters against error",
                                     "Every way to a smaller layer: further left is smaller, further down is "
                                     "better. The layer itself, which has no error, is left out.",
                                     chart));
  page.figures.push_back(spectra(refit.layer, "spectra", "Spectra of the smaller layer"));
  page.figures.push_back(attention(refit.layer, tokens));
  add_trace(refit.trace, page);
  return write_page(page, folder, execution);
}

}  // namespace headlens

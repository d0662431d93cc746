// A match as a page: the verdict, the matrix of overlaps, the heads that moved.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/parallel.hpp"
#include "headlens/layer_report.hpp"
#include "match/overlaps.hpp"
#include "report/escape.hpp"
#include "report/layers/layer_page.hpp"

namespace headlens {
namespace {

using namespace report;

constexpr std::size_t kMostLayers = 6;

Mood mood_of(MatchVerdict verdict) {
  return verdict == MatchVerdict::same      ? Mood::good
         : verdict == MatchVerdict::derived ? Mood::middling
                                            : Mood::open;
}

std::string next_step(MatchVerdict verdict) {
  switch (verdict) {
    case MatchVerdict::same:
      return "What to do next: nothing, for the two compute the same function; put the heads of B into the "
             "order below before comparing them one by one.";
    case MatchVerdict::derived:
      return "What to do next: look at the heads with the largest distances first, and measure what they "
             "change with headlens check on inputs and outputs of A.";
    case MatchVerdict::unrelated:
      return "What to do next: if the two should be related, give the prefixes of the layers that belong "
             "together, or match all layers of both with all others.";
  }
  return "";
}

// Overlap of every head of one layer with every head of another.
Grid overlaps(const LayerHeads& a, const LayerHeads& b, const std::string& title, int threads) {
  const bool dense_theta = a.k.empty() || b.k.empty(), dense_w = a.o.empty() || b.o.empty();
  const matching::Overlaps all =
      find_overlaps(matching::make_forms(a, dense_theta, dense_w, threads),
                    matching::make_forms(b, dense_theta, dense_w, threads), threads);
  Grid out{title, {}, {}, {}};
  for (Index j = 0; j < b.heads(); ++j) out.columns.push_back(std::to_string(j));
  for (Index i = 0; i < a.heads(); ++i) {
    out.rows.push_back(std::to_string(i));
    std::vector<double>& row = out.values.emplace_back();
    for (Index j = 0; j < b.heads(); ++j)
      row.push_back(std::clamp((std::abs(all.theta(i, j)) + std::abs(all.w(i, j))) / 2, 0.0, 1.0));
  }
  return out;
}

// The layers of A with the layer of B that their first head went to.
Grids all_overlaps(const Match& match, const std::vector<LayerHeads>& a, const std::vector<LayerHeads>& b,
                   int threads) {
  Grids out{"head of A", "head of B", {}};
  for (std::size_t i = 0; i < std::min(a.size(), kMostLayers); ++i) {
    const auto head = std::ranges::find_if(
        match.heads, [&](const MatchedHead& h) { return h.layer_a == static_cast<Index>(i); });
    if (head == match.heads.end()) continue;
    out.panels.push_back(overlaps(a[i], b[static_cast<std::size_t>(head->layer_b)],
                                  fmt::format("layers {} and {}", i, head->layer_b), threads));
  }
  return out;
}

std::vector<std::vector<std::string>> table_of(const Match& match) {
  std::vector<std::vector<std::string>> out{
      {"head of A", "head of B", "distance", "of Theta", "of W", "overlap of Theta", "of W"}};
  const bool several = match.layers.size() > 1 || !match.table.empty();
  const auto place = [&](Index layer, Index head) {
    return several ? fmt::format("{}.{}", layer, head) : std::to_string(head);
  };
  for (const MatchedHead& head : match.heads)
    out.push_back({place(head.layer_a, head.a), place(head.layer_b, head.b), number(head.distance, 3),
                   number(head.theta_distance, 3), number(head.w_distance, 3), number(head.theta_overlap, 4),
                   number(head.w_overlap, 4)});
  return out;
}

void add_table_of_layers(const Match& match, LayerPage& page) {
  if (match.table.empty()) return;
  Grid grid{"layers", {}, {}, match.table};
  for (std::size_t i = 0; i < match.table.size(); ++i) grid.rows.push_back(std::to_string(i));
  for (std::size_t j = 0; j < match.table.front().size(); ++j) grid.columns.push_back(std::to_string(j));
  for (auto& row : grid.values)
    for (double& value : row) value = std::clamp(value, 0.0, 1.0);
  page.figures.push_back(figure_of("layers", "Layers of A against layers of B",
                                   "Mean overlap of the best assignment of heads, layer by layer.",
                                   Grids{"layer of A", "layer of B", {grid}}));
}

}  // namespace

std::filesystem::path write_report(const Match& match, const std::vector<LayerHeads>& a,
                                   const std::vector<LayerHeads>& b, const std::filesystem::path& folder,
                                   const Execution& execution) {
  LayerPage page{"Heads of two layers, matched", name(match.verdict), mood_of(match.verdict)};
  const std::string text = in_words(match);
  const std::size_t second = text.find('\n') + 1;
  page.words = {text.substr(second, text.find('\n', second) - second), next_step(match.verdict)};
  page.facts = {{"p-value", fmt::format("{} (against {})", number(match.p_value, 2), name(match.null))},
                {"largest distance", number(match.worst_distance)},
                {"median distance", number(match.median_distance)},
                {"layers", fmt::format("{} of A, {} of B", a.size(), b.size())}};
  page.table = table_of(match);
  page.details = text;
  const Grids grids = all_overlaps(match, a, b, thread_count(execution));
  if (!grids.panels.empty())
    page.figures.push_back(figure_of(
        "overlaps", "Overlap of every two heads",
        "The mean of the absolute cosines of Theta and of W: 1 for equal heads, near 0 for unrelated ones. A "
        "copy shows one bright cell in every row and column.",
        grids));
  add_table_of_layers(match, page);
  page.figures.push_back(spectra(a.front(), "spectra-a", "Spectra of the heads of A"));
  page.figures.push_back(spectra(b.front(), "spectra-b", "Spectra of the heads of B"));
  return write_page(page, folder, execution);
}

}  // namespace headlens

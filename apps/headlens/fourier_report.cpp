#include "fourier_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace headlens::app {
namespace {

constexpr std::size_t kShown = 10;

std::vector<Index> subset_of(const Fourier& fourier, Index row) {
  std::vector<Index> subset;
  const Index degree = fourier.subsets.dim(1);
  for (Index i = 0; i < degree; ++i) {
    const std::int64_t v = fourier.subsets.data<std::int64_t>()[row * degree + i];
    if (v >= 0) subset.push_back(v);
  }
  return subset;
}

// Places in `values` of the largest coefficients; ties by order.
std::vector<Index> largest(const Fourier& fourier) {
  std::vector<Index> places(static_cast<std::size_t>(fourier.values.size()));
  std::iota(places.begin(), places.end(), Index{0});
  const double* values = fourier.values.data<double>();
  const auto shown = static_cast<std::ptrdiff_t>(std::min(kShown, places.size()));
  std::partial_sort(places.begin(), places.begin() + shown, places.end(), [&](Index a, Index b) {
    return std::abs(values[a]) != std::abs(values[b]) ? std::abs(values[a]) > std::abs(values[b]) : a < b;
  });
  places.resize(static_cast<std::size_t>(shown));
  return places;
}

// Squares of estimates add up to the squares of their errors, so samples have no weight.
Json levels_json(const Fourier& fourier, Index dim, FourierPart part) {
  Json out = Json::array();
  for (const FourierLevel& level : fourier_levels(fourier, dim, part))
    out.push_back({{"degree", level.degree},
                   {"count", level.count},
                   {"largest", level.largest},
                   {"weight", fourier.exact ? Json(level.weight) : Json(nullptr)}});
  return out;
}

std::string level_text(const FourierLevel& level, bool exact) {
  return fmt::format("{:>12.4g} {:>12}", level.largest, exact ? fmt::format("{:.4g}", level.weight) : "-");
}

// "x1 x4' x7'": a prime is the second token's.
std::string subset_text(const std::vector<Index>& subset, Index dim) {
  std::string text;
  for (const Index v : subset)
    text += fmt::format("{}x{}{}", text.empty() ? "" : " ", v % dim, v < dim ? "" : "'");
  return text.empty() ? "1" : text;
}

}  // namespace

Json fourier_json(const Fourier& fourier, Index dim, bool hard) {
  Json top = Json::array();
  const Index e = fourier.values.dim(1);
  for (const Index place : largest(fourier))
    top.push_back({{"subset", subset_of(fourier, place / e)},
                   {"output", place % e},
                   {"value", fourier.values.data<double>()[place]}});
  return {{"exact", fourier.exact},
          {"half_widths", fourier.half_widths},
          {"levels", levels_json(fourier, dim, FourierPart::everything)},
          {"hidden_levels", hard ? levels_json(fourier, dim, FourierPart::hidden) : Json(nullptr)},
          {"largest", top}};
}

std::string fourier_text(const Fourier& fourier, Index dim, bool hard) {
  std::string text = fmt::format(
      "\nFourier coefficients of the first output row on two sign tokens, {}",
      fourier.exact ? "exact"
                    : fmt::format("from samples: all are within {:.2g} of the truth with probability 0.95",
                                  *std::max_element(fourier.half_widths.begin(), fourier.half_widths.end())));
  text += fmt::format("\n{:>6} {:>9} {:>12} {:>12}", "degree", "count", "largest", "weight");
  if (hard) text += fmt::format(" {:>19} {:>12}", "hidden: largest", "weight");
  const auto levels = fourier_levels(fourier, dim, FourierPart::everything),
             hidden = fourier_levels(fourier, dim, FourierPart::hidden);
  for (std::size_t k = 0; k < levels.size(); ++k) {
    text += fmt::format("\n{:>6} {:>9} {}", levels[k].degree, levels[k].count,
                        level_text(levels[k], fourier.exact));
    if (hard) text += "        " + level_text(hidden[k], fourier.exact);
  }
  text += "\nthe largest coefficients:";
  const Index e = fourier.values.dim(1);
  for (const Index place : largest(fourier))
    if (fourier.values.data<double>()[place] != 0)
      text += fmt::format("\n  {:>12.4g}  {}{}", fourier.values.data<double>()[place],
                          subset_text(subset_of(fourier, place / e), dim),
                          e > 1 ? fmt::format("  (output {})", place % e) : "");
  return text;
}

Json label_json(const std::optional<HiddenLabel>& label) {
  if (!label) return nullptr;
  const auto rivals = sq_dimension(*label);
  return {{"hidden", label->weights},      {"steps", label->steps},
          {"at_rest", label->at_rest},     {"sharpness", label->sharpness},
          {"tolerance", label->tolerance}, {"sq_dimension", optional_json(rivals)}};
}

std::string label_text(const HiddenLabel& label) {
  std::string coordinates;
  for (Index j = 0; j < label.dim(); ++j) {
    const std::int64_t u = label.weights[static_cast<std::size_t>(j)];
    if (u == 0) continue;
    coordinates += fmt::format("{}{}", coordinates.empty() ? "" : " ", j);
    if (u != 1) coordinates += fmt::format(" ({})", u);
  }
  std::string text = fmt::format(
      "\nhard layer: hides coordinates {}; differs from its exact label by {:.1e} at most on two sign tokens",
      coordinates, label.tolerance);
  if (const auto rivals = sq_dimension(label))
    text += fmt::format("\nstatistical-query dimension: at least C({}, {}) = {:.6g}", label.dim() - 1,
                        label.reach(), *rivals);
  return text;
}

}  // namespace headlens::app

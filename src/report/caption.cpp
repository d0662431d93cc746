// What stands under a figure: how to read it, and what its numbers say.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/escape.hpp"
#include "report/tables.hpp"
#include "report/vocabulary.hpp"

namespace headlens::report {
namespace {

std::string seeds_text(const Summary& summary) {
  return summary.seeds.size() == 1 ? "1 seed" : fmt::format("{} seeds", summary.seeds.size());
}

std::string how_to_read_sizes(const FigureData& data) {
  std::string errors;
  for (std::size_t i = 0; i < std::size(kErrors); ++i)
    errors += (i == 0 ? "" : i + 1 == std::size(kErrors) ? " and " : ", ") + number(kErrors[i]);
  return fmt::format(
      "The number of {} at which the median {} over {} first falls to {}, interpolated between the values "
      "tried on "
      "logarithmic scales. Lines are 95% bootstrap intervals over seeds. An open marker with an arrow is a "
      "bound: the "
      "error was not reached at the largest value tried, or was reached at the smallest already.",
      term(data.spec.x), term(data.quantity), seeds_text(data.summary), errors);
}

std::string how_to_read(const FigureData& data) {
  const Summary& summary = data.summary;
  if (data.spec.kind == FigureKind::phase_diagram)
    return summary.truth
               ? fmt::format("Share of {} for which {}.", seeds_text(summary), success_of(data.quantity))
               : fmt::format("Median {} over {}.", term(data.quantity), seeds_text(summary));
  if (data.spec.kind == FigureKind::sample_table) return how_to_read_sizes(data);
  std::string text =
      summary.seeds.size() == 1
          ? "There is one seed, so no spread is shown."
          : fmt::format("Lines are medians of the {} over {}; bands reach from the 10% to the 90% quantile.",
                        term(data.quantity), seeds_text(summary));
  if (data.quantity == "nmse") text += " The dotted line at 1 is the error of always predicting the mean.";
  if (!data.spec.success.empty())
    text += fmt::format(" A marker is open where {} for fewer than half of the seeds.",
                        success_of(data.spec.success));
  if (!data.theory.empty())
    text +=
        " The dashed line is the error that theory predicts; beside it the medians are points without a "
        "line. "
        "A dotted curve is the bound on the mean square error of training over a norm ball, over the "
        "variance "
        "of the target, where that is below 10.";
  return text;
}

std::string theory_text(const TheoryOverlay& overlay) {
  std::string text = theory_sentence(overlay);
  if (!text.empty()) text = " " + text;
  if (!overlay.silence.empty())
    text += fmt::format(" Theory is silent about some of the curves ({}).", overlay.silence);
  return text;
}

std::string what_is_missing(const Summary& summary) {
  std::string text;
  if (summary.missing > 0)
    text += fmt::format(" {} of {} cells are not finished yet.", summary.missing, summary.cells);
  if (summary.failed > 0) text += fmt::format(" {} of {} cells failed.", summary.failed, summary.cells);
  if (summary.dropped > 0)
    text += fmt::format(" {} left out because {} zero, negative or not a number.",
                        summary.dropped == 1 ? "1 value is" : fmt::format("{} values are", summary.dropped),
                        summary.dropped == 1 ? "it is" : "they are");
  return text;
}

struct Contest {
  const Curve* curve = nullptr;
  const Point* point = nullptr;
};

// The largest x at which two or more series of a panel have values, and these in order.
std::vector<Contest> last_contest(const Summary& summary, const std::string& panel) {
  std::vector<Contest> best;
  double largest = 0;
  for (const Curve& curve : summary.curves)
    for (const Point& point : curve.points)
      if (curve.panel == panel && !point.values.empty() && std::isfinite(point.x) && point.x > largest) {
        std::vector<Contest> here;
        for (const Curve& other : summary.curves)
          for (const Point& p : other.points)
            if (other.panel == panel && p.x == point.x && !p.values.empty()) here.push_back({&other, &p});
        if (here.size() < 2) continue;
        largest = point.x;
        best = here;
      }
  std::sort(best.begin(), best.end(),
            [](const Contest& a, const Contest& b) { return a.point->median < b.point->median; });
  return best;
}

// "At 2048 training sets the smallest median is that of RFA, 0.0104, and the next that of BRFA, 0.0234
// (degree 1)."
std::string who_is_smallest(const FigureData& data) {
  std::string text;
  for (const std::string& panel : data.summary.panels) {
    const std::vector<Contest> order = last_contest(data.summary, panel);
    if (order.empty()) continue;
    const Contest &first = order[0], &second = order[1];
    text += fmt::format(" At {} the smallest median is that of {}, {}, and the next that of {}, {}{}.",
                        label(data.spec.x, first.point->x_value), first.curve->series,
                        number(first.point->median), second.curve->series, number(second.point->median),
                        panel.empty() ? "" : " (" + panel + ")");
  }
  return text;
}

// "2 to 4 examples per unknown", neighbours of the grid as ranges; "" where some seed fails everywhere.
std::string where_all_succeed(const Curve& curve, const std::string& x) {
  std::string text;
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    std::size_t end = i;
    while (end < curve.points.size() && curve.points[end].mean == 1) ++end;
    if (end == i) continue;
    std::string values = headlens::text(curve.points[i].x_value);
    if (end > i + 1) values += " to " + headlens::text(curve.points[end - 1].x_value);
    text += (text.empty() ? "" : " and ") + with_unit(x, values);
    i = end;
  }
  return text;
}

std::string where_all_succeed(const FigureData& data) {
  std::string text;
  for (const Curve& curve : data.summary.curves) {
    const std::string places = where_all_succeed(curve, data.spec.x);
    if (places.empty()) continue;
    const std::string row =
        curve.panel + (curve.panel.empty() || curve.series.empty() ? "" : ", ") + curve.series;
    text += (text.empty() ? "" : ", ") + places + (row.empty() ? "" : " (" + row + ")");
  }
  return text.empty() ? " Nowhere do all seeds succeed." : " All seeds succeed at " + text + ".";
}

}  // namespace

std::string caption(const FigureData& data) {
  if (!can_draw(data))
    return fmt::format(
        "There is nothing to draw: none of the {} cells has a value of the {} that the figure can show.{}",
        data.summary.cells, term(data.quantity), what_is_missing(data.summary));
  std::string text = data.spec.caption;
  if (!text.empty()) text += " ";
  text += how_to_read(data);
  if (is_curves(data.spec.kind) && data.spec.kind != FigureKind::growth)
    text += who_is_smallest(data) + theory_text(data.theory);
  if (data.spec.kind == FigureKind::phase_diagram && data.summary.truth) text += where_all_succeed(data);
  return text + what_is_missing(data.summary);
}

}  // namespace headlens::report

// What stands under a figure: how to read it, and what its numbers say.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/escape.hpp"
#include "report/layout.hpp"
#include "report/tables.hpp"

namespace headlens::report {
namespace {

std::string seeds_text(const Summary& summary) {
  return summary.seeds.size() == 1 ? "1 seed" : fmt::format("{} seeds", summary.seeds.size());
}

std::string how_to_read(const FigureData& data) {
  const Summary& summary = data.summary;
  if (data.spec.kind == FigureKind::phase_diagram)
    return summary.truth ? fmt::format("Share of {} with {}.", seeds_text(summary), data.quantity)
                         : fmt::format("Median of {} over {}.", data.quantity, seeds_text(summary));
  if (data.spec.kind == FigureKind::sample_table)
    return fmt::format(
        "The {} at which the median {} over {} first falls to the given error, interpolated in logarithms; "
        "lines "
        "are 95% "
        "bootstrap intervals over seeds. Open markers with an arrow are bounds: not reached by the largest "
        "value tried, "
        "or reached by the smallest.",
        axis_title(data.spec.x), data.quantity, seeds_text(summary));
  std::string text = summary.seeds.size() == 1
                         ? "One seed, so no spread is shown."
                         : fmt::format("Medians over {}; bands reach from the 10% to the 90% quantile.",
                                       seeds_text(summary));
  if (data.quantity == "nmse") text += " An error of 1 (dotted) is that of predicting the mean.";
  if (!data.spec.success.empty())
    text += fmt::format(" Open markers: fewer than half of the seeds succeed ({}).", data.spec.success);
  if (!data.theory.empty())
    text +=
        " Dashed: the error that theory predicts for infinitely many heads, beside the medians as points. "
        "Dotted: the square of the risk bound sqrt(B / n) over the variance of the target, where it is below "
        "10.";
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
    text += fmt::format(" {} {} left out: zero, negative, or not a number.", summary.dropped,
                        summary.dropped == 1 ? "value is" : "values are");
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

// "RFA, 0.0104 at samples = 2048, then BRFA, 0.0234 (power mean); ..."
std::string who_is_smallest(const FigureData& data) {
  std::string text;
  for (const std::string& panel : data.summary.panels) {
    const std::vector<Contest> order = last_contest(data.summary, panel);
    if (order.empty()) continue;
    const Contest &first = order[0], &second = order[1];
    text += fmt::format("{}{}, {} at {} = {}, then {}, {}{}", text.empty() ? " Smallest medians: " : "; ",
                        first.curve->series, number(first.point->median), data.spec.x,
                        headlens::text(first.point->x_value), second.curve->series,
                        number(second.point->median), panel.empty() ? "" : " (" + panel + ")");
  }
  return text.empty() ? "" : text + ".";
}

// From which x on every seed succeeds, a row at a time.
std::string where_all_succeed(const FigureData& data) {
  std::string text;
  for (const Curve& curve : data.summary.curves) {
    const Point* first = nullptr;
    for (const Point& point : curve.points) {
      if (point.values.empty()) continue;
      if (point.mean < 1) first = nullptr;
      if (point.mean == 1 && first == nullptr) first = &point;
    }
    text += fmt::format("{}{} ({}{})",
                        text.empty() ? fmt::format(" Every seed succeeds from {} = ", data.spec.x) : ", ",
                        first == nullptr ? "nowhere" : headlens::text(first->x_value),
                        curve.panel.empty() ? "" : curve.panel + ", ", curve.series);
  }
  return text.empty() ? "" : text + ".";
}

}  // namespace

std::string caption(const FigureData& data) {
  if (!can_draw(data))
    return fmt::format("Nothing to draw: none of {} cells has a value of {} that could be.{}",
                       data.summary.cells, data.quantity, what_is_missing(data.summary));
  std::string text = data.spec.caption;
  if (!text.empty()) text += " ";
  text += how_to_read(data);
  if (data.spec.kind == FigureKind::growth)
    text += " " + growth_sentence(data.growth, data.spec);
  else if (is_curves(data.spec.kind))
    text += who_is_smallest(data) + theory_text(data.theory);
  if (data.spec.kind == FigureKind::phase_diagram && data.summary.truth) text += where_all_succeed(data);
  return text + what_is_missing(data.summary);
}

}  // namespace headlens::report

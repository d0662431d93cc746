#include "report/figures.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace headlens::report {
namespace {

CurveAxes axes_of(const FigureSpec& spec) {
  switch (spec.kind) {
    case FigureKind::phase_diagram:
      return {spec.x, spec.quantity, spec.panel, spec.y, false};
    case FigureKind::sample_table:
      return {spec.x, spec.quantity.empty() ? spec.y : spec.quantity, spec.panel, spec.series, false};
    default:
      return {spec.x, spec.y, spec.panel, spec.series, true};
  }
}

std::vector<SampleSizeRow> sample_sizes(const Summary& summary) {
  std::vector<SampleSizeRow> rows;
  std::uint64_t stream = 0;
  for (const Curve& curve : summary.curves) {
    SampleSizeRow& row = rows.emplace_back(SampleSizeRow{curve.panel, curve.series, {}});
    for (const double error : kErrors) row.sizes.push_back(sample_size(curve, error, stream++));
  }
  return rows;
}

}  // namespace

std::vector<std::size_t> StyleBook::styles(const std::vector<std::string>& series) {
  std::vector<std::size_t> styles(series.size());
  std::set<std::size_t> used;
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < series.size(); ++i) {
    const auto found = known_.find(series[i]);
    if (found != known_.end() && used.insert(found->second).second)
      styles[i] = found->second;
    else
      open.push_back(i);
  }
  for (const std::size_t i : open) {
    for (styles[i] = 0; !used.insert(styles[i]).second;) ++styles[i];
    known_.emplace(series[i], styles[i]);
  }
  return styles;
}

bool is_curves(FigureKind kind) {
  return kind == FigureKind::learning_curves || kind == FigureKind::head_curves || kind == FigureKind::growth;
}

FigureData figure_data(const StudyResults& results, const FigureSpec& spec) {
  const CurveAxes axes = axes_of(spec);
  FigureData data{spec, axes.quantity, summarise(results, axes), {}, {}, {}, {}};
  if (spec.kind == FigureKind::sample_table) data.sizes = sample_sizes(data.summary);
  if (spec.theory) data.theory = theory_overlay(results.study.command, data.summary);
  if (spec.kind == FigureKind::growth) data.growth = measure_growth(results, spec, data.summary);
  for (std::size_t i = 0; i < data.summary.series.size(); ++i) data.styles.push_back(i);
  return data;
}

double shown_value(const Point& point, const Summary& summary) {
  return summary.truth ? point.mean : point.median;
}

bool can_draw(const FigureData& data) {
  const bool any_place = data.spec.kind == FigureKind::phase_diagram;
  const bool limits = data.spec.kind == FigureKind::head_curves;
  for (const Curve& curve : data.summary.curves)
    for (const Point& point : curve.points)
      if (!point.values.empty() && (any_place || (point.x > 0 && (limits || std::isfinite(point.x)))))
        return true;
  return false;
}

Canvas draw(const FigureData& data) {
  switch (data.spec.kind) {
    case FigureKind::phase_diagram:
      return draw_phase_diagram(data);
    case FigureKind::sample_table:
      return draw_sample_sizes(data);
    default:
      return draw_curves(data);
  }
}

}  // namespace headlens::report

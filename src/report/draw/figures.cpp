#include "report/draw/figures.hpp"

#include <cmath>

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

bool is_curves(FigureKind kind) {
  return kind == FigureKind::learning_curves || kind == FigureKind::head_curves || kind == FigureKind::growth;
}

FigureData figure_data(const StudyResults& results, const FigureSpec& spec) {
  const CurveAxes axes = axes_of(spec);
  FigureData data{spec, axes.quantity, summarise(results, axes), {}, {}, {}, {}};
  if (spec.kind == FigureKind::sample_table) data.sizes = sample_sizes(data.summary);
  if (spec.theory) data.theory = theory_overlay(results.study.command, data.summary);
  if (spec.kind == FigureKind::growth) data.growth = measure_growth(results, spec, data.summary);
  return data;
}

double shown_value(const Point& point, const Summary& summary) {
  return summary.truth ? point.mean : point.median;
}

bool can_draw(const FigureData& data) {
  const FigureKind kind = data.spec.kind;
  const auto has_place = [&](double x) {
    if (kind == FigureKind::phase_diagram) return true;
    if (kind == FigureKind::sample_table) return std::isfinite(x) && x > 0;  // on a logarithmic axis
    return std::isfinite(x) || (kind == FigureKind::head_curves && x > 0);  // "inf" is a limit, a word is NaN
  };
  for (const Curve& curve : data.summary.curves)
    for (const Point& point : curve.points)
      if (!point.values.empty() && has_place(point.x)) return true;
  return false;
}

Canvas draw(const FigureData& data, Form form) {
  switch (data.spec.kind) {
    case FigureKind::phase_diagram:
      return draw_phase_diagram(data, form);
    case FigureKind::sample_table:
      return draw_sample_sizes(data, form);
    default:
      return draw_curves(data, form);
  }
}

}  // namespace headlens::report

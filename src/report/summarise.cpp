#include "report/summarise.hpp"

#include <algorithm>
#include <cmath>

#include "headlens/error.hpp"
#include "report/vocabulary.hpp"

namespace headlens::report {
namespace {

template <class T>
void add_new(std::vector<T>& list, const T& item) {
  if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
}

void check_axis(const Study& study, const std::string& name) {
  const bool known = std::any_of(study.axes.begin(), study.axes.end(),
                                 [&](const StudyAxis& axis) { return axis.name == name; });
  require(known || name.empty(), "study ", study.name, ": a figure asks for '", name,
          "', which is not an axis of its grid");
}

// Axes of more than one value that the figure does not name.
std::vector<std::string> other_axes(const Study& study, const CurveAxes& axes) {
  std::vector<std::string> names;
  for (const StudyAxis& axis : study.axes)
    if (axis.values.size() > 1 && axis.name != axes.x && axis.name != axes.panel && axis.name != axes.series)
      names.push_back(axis.name);
  return names;
}

std::string label_of(const StudyCell& cell, const std::string& axis) {
  const StudyValue* value = axis.empty() ? nullptr : find(cell.axes, axis);
  return value == nullptr ? "" : label(axis, *value);
}

std::string panel_of(const StudyCell& cell, const CurveAxes& axes, const std::vector<std::string>& others) {
  std::string panel = label_of(cell, axes.panel);
  for (const std::string& axis : others) panel += (panel.empty() ? "" : ", ") + label_of(cell, axis);
  return panel;
}

Curve& curve_of(Summary& summary, const std::string& panel, const std::string& series) {
  for (Curve& curve : summary.curves)
    if (curve.panel == panel && curve.series == series) return curve;
  add_new(summary.panels, panel);
  add_new(summary.series, series);
  return summary.curves.emplace_back(Curve{panel, series, {}});
}

Point& point_of(Curve& curve, const StudyValue& x) {
  for (Point& point : curve.points)
    if (same(point.x_value, x)) return point;
  Point& point = curve.points.emplace_back();
  point.x_value = x;
  point.x = as_number(x).value_or(kNoNumber);
  return point;
}

void add_cell(Point& point, const StudyCell& cell, const CurveAxes& axes) {
  ++point.cells;
  point.inputs = cell.inputs;
  if (cell.status == CellStatus::failed) ++point.failed;
  if (cell.status == CellStatus::missing || cell.status == CellStatus::running) ++point.missing;
  if (cell.status != CellStatus::done) return;
  const StudyValue* output = find(cell.outputs, axes.quantity);
  const double value = output == nullptr ? kNoNumber : as_number(*output).value_or(kNoNumber);
  if (std::isfinite(value) && (value > 0 || !axes.positive))
    point.values.push_back({cell.seed, value});
  else
    ++point.dropped;
}

void describe(Point& point) {
  if (point.values.empty()) return;
  std::sort(point.values.begin(), point.values.end(),
            [](const SeedValue& a, const SeedValue& b) { return a.seed < b.seed; });
  std::vector<double> sorted;
  double sum = 0, logs = 0;
  for (const SeedValue& item : point.values) {
    sorted.push_back(item.value);
    sum += item.value;
    logs += std::log(item.value);  // NaN for negative values, and exp(-inf) = 0 is right for zeros
  }
  std::sort(sorted.begin(), sorted.end());
  const auto count = static_cast<double>(sorted.size());
  point.mean = sum / count;
  point.geometric_mean = std::exp(logs / count);
  point.median = quantile(sorted, 0.5);
  point.lower = quantile(sorted, 0.1);
  point.upper = quantile(sorted, 0.9);
  point.smallest = sorted.front();
  point.largest = sorted.back();
}

void add_to(Summary& summary, const Point& point) {
  summary.cells += point.cells;
  summary.failed += point.failed;
  summary.missing += point.missing;
  summary.dropped += point.dropped;
  for (const SeedValue& item : point.values) {
    add_new(summary.seeds, item.seed);
    summary.truth = summary.truth && (item.value == 0 || item.value == 1);
  }
}

}  // namespace

std::optional<double> as_number(const StudyValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  if (const auto* real = std::get_if<double>(&value)) return *real;
  if (const auto* truth = std::get_if<bool>(&value)) return *truth ? 1.0 : 0.0;
  if (std::get<std::string>(value) == "inf") return std::numeric_limits<double>::infinity();
  return std::nullopt;
}

const StudyValue* find(const StudyValues& values, const std::string& name) {
  for (const auto& [key, value] : values)
    if (key == name) return &value;
  return nullptr;
}

bool same(const StudyValue& a, const StudyValue& b) {
  const auto x = as_number(a), y = as_number(b);
  return x && y ? *x == *y : a == b;
}

bool comes_first(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? !std::isnan(a) && std::isnan(b) : a < b;
}

double quantile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return kNoNumber;
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

Summary summarise(const StudyResults& results, const CurveAxes& axes) {
  for (const std::string& axis : {axes.x, axes.panel, axes.series}) check_axis(results.study, axis);
  const std::vector<std::string> others = other_axes(results.study, axes);
  Summary summary;
  for (const StudyCell& cell : results.cells) {
    const StudyValue* x = find(cell.axes, axes.x);
    Curve& curve = curve_of(summary, panel_of(cell, axes, others), label_of(cell, axes.series));
    add_cell(point_of(curve, x == nullptr ? StudyValue("") : *x), cell, axes);
  }
  for (Curve& curve : summary.curves) {
    std::stable_sort(curve.points.begin(), curve.points.end(),
                     [](const Point& a, const Point& b) { return comes_first(a.x, b.x); });
    for (Point& point : curve.points) {
      describe(point);
      add_to(summary, point);
    }
  }
  return summary;
}

}  // namespace headlens::report

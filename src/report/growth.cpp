#include "report/growth.hpp"

#include <cmath>

#include "report/finding.hpp"

namespace headlens::report {
namespace {

const Point* same_point(const Summary& summary, const Curve& curve, const Point& point) {
  for (const Curve& other : summary.curves) {
    if (other.panel != curve.panel || other.series != curve.series) continue;
    for (const Point& candidate : other.points)
      if (same(candidate.x_value, point.x_value)) return candidate.values.empty() ? nullptr : &candidate;
  }
  return nullptr;
}

Summary summary_of(const StudyResults& results, const FigureSpec& spec, const std::string& quantity) {
  if (quantity.empty()) return {};
  return summarise(results, {spec.x, quantity, spec.panel, spec.series, false});
}

Slope exponential(const Slope& slope) {
  return {std::exp(slope.value), std::exp(slope.lower), std::exp(slope.upper)};
}

}  // namespace

std::optional<Slope> fit_slope(const std::vector<double>& x, const std::vector<double>& y) {
  const auto n = static_cast<double>(x.size());
  if (x.size() < 3) return std::nullopt;
  double mx = 0, my = 0, xx = 0, xy = 0, left = 0;
  for (std::size_t i = 0; i < x.size(); ++i) mx += x[i] / n, my += y[i] / n;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mx) * (x[i] - mx);
    xy += (x[i] - mx) * (y[i] - my);
  }
  if (!(xx > 0)) return std::nullopt;
  const double slope = xy / xx;
  for (std::size_t i = 0; i < x.size(); ++i) left += std::pow(y[i] - my - slope * (x[i] - mx), 2);
  const double half =
      student_quantile(static_cast<Index>(x.size()) - 2, 0.95) * std::sqrt(left / (n - 2) / xx);
  return Slope{slope, slope - half, slope + half};
}

const GrowthCurve* Growth::find(const Curve& curve) const {
  for (const GrowthCurve& known : curves)
    if (known.panel == curve.panel && known.series == curve.series) return &known;
  return nullptr;
}

std::optional<double> Growth::beside_at(const Curve& curve, const Point& point) const {
  const Point* found = same_point(beside, curve, point);
  return found == nullptr ? std::nullopt : std::optional(found->median);
}

std::optional<double> Growth::share_at(const Curve& curve, const Point& point) const {
  const Point* found = same_point(success, curve, point);
  return found == nullptr ? std::nullopt : std::optional(found->mean);
}

bool Growth::fails(const Curve& curve, const Point& point) const {
  return share_at(curve, point).value_or(1) < 0.5;
}

Growth measure_growth(const StudyResults& results, const FigureSpec& spec, const Summary& summary) {
  Growth growth{{}, summary_of(results, spec, spec.beside), summary_of(results, spec, spec.success)};
  for (const Curve& curve : summary.curves) {
    std::vector<double> x, beside, y, y_beside;
    for (const Point& point : curve.points)
      for (const SeedValue& item : point.values) {
        if (std::isfinite(point.x)) x.push_back(point.x), y.push_back(std::log(item.value));
        const double other = growth.beside_at(curve, point).value_or(0);
        if (other > 0) beside.push_back(std::log(other)), y_beside.push_back(std::log(item.value));
      }
    GrowthCurve& row = growth.curves.emplace_back(GrowthCurve{curve.panel, curve.series, {}, {}});
    if (const auto slope = fit_slope(x, y)) row.factor = exponential(*slope);
    row.power = fit_slope(beside, y_beside);
  }
  return growth;
}

}  // namespace headlens::report

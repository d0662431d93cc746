// How fast a quantity grows along x, and beside another quantity such as the SQ dimension.
//
//   log(value) = a + x log(factor)         value = a beside^power
//
// by least squares over all seeds, with 95% intervals of the slope by Student's t.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/summarise.hpp"

namespace headlens::report {

struct Slope {
  double value = kNoNumber, lower = kNoNumber, upper = kNoNumber;
};
// Of y on x; empty with fewer than three points or no spread in x.
std::optional<Slope> fit_slope(const std::vector<double>& x, const std::vector<double>& y);

struct GrowthCurve {
  std::string panel, series;
  std::optional<Slope> factor;  // for one more unit of x
  std::optional<Slope> power;   // of what stands beside it
};

struct Growth {
  std::vector<GrowthCurve> curves;  // one a curve of the summary
  Summary beside, success;          // of the quantities that the figure names; empty without

  bool empty() const { return curves.empty(); }
  const GrowthCurve* find(const Curve& curve) const;
  std::optional<double> beside_at(const Curve& curve, const Point& point) const;  // its median
  std::optional<double> share_at(const Curve& curve, const Point& point) const;   // of seeds that succeed
  bool fails(const Curve& curve, const Point& point) const;  // fewer than half of them do
};

Growth measure_growth(const StudyResults& results, const FigureSpec& spec, const Summary& summary);

}  // namespace headlens::report

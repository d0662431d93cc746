// Cells grouped into curves: at each x the values of a quantity over the seeds, with their spread.
//
// Axes that a figure names neither as x, panel nor series would mix cells of different meaning, so each of
// their combinations gets a panel of its own.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "headlens/study.hpp"

namespace headlens::report {

inline constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

// A number as it is, "inf" as infinity, true as 1; nothing for other words.
std::optional<double> as_number(const StudyValue& value);
const StudyValue* find(const StudyValues& values, const std::string& name);  // null: not there
bool same(const StudyValue& a, const StudyValue& b);                         // 1 and 1.0 are the same
bool comes_first(double a, double b);                                        // words (NaN) after all numbers

// Linear between order statistics: quantile(sorted, 1/2) is the median. NaN of nothing.
double quantile(const std::vector<double>& sorted, double share);

struct SeedValue {
  std::uint64_t seed = 0;
  double value = 0;
};

struct Point {
  StudyValue x_value;
  double x = kNoNumber;           // infinity for "inf", NaN for other words
  StudyValues inputs;             // of its cells, which differ by seed alone
  std::vector<SeedValue> values;  // finite ones, and only positive ones where asked for
  Index cells = 0, failed = 0, missing = 0, dropped = 0;
  double mean = kNoNumber, geometric_mean = kNoNumber, median = kNoNumber;
  double lower = kNoNumber, upper = kNoNumber;  // 10% and 90% quantile
  double smallest = kNoNumber, largest = kNoNumber;
};

struct Curve {
  std::string panel, series;
  std::vector<Point> points;  // by x
};

struct CurveAxes {
  std::string x, quantity, panel, series;
  bool positive = false;  // for logarithmic axes: zeros and negative values are dropped and counted
};

struct Summary {
  std::vector<Curve> curves;                // in the order of the grid
  std::vector<std::string> panels, series;  // names in that order, without repeats
  std::vector<std::uint64_t> seeds;         // with a value
  Index cells = 0, failed = 0, missing = 0, dropped = 0;
  bool truth = true;  // every value is 0 or 1
  bool empty() const { return seeds.empty(); }
};

Summary summarise(const StudyResults& results, const CurveAxes& axes);

}  // namespace headlens::report

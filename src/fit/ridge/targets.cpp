#include "fit/ridge/targets.hpp"

#include <algorithm>

namespace headlens::training {
namespace {

bool all_zero(MatrixView<const double> y) {
  for (Index i = 0; i < y.rows; ++i)
    for (Index c = 0; c < y.cols; ++c)
      if (y(i, c) != 0) return false;
  return true;
}

}  // namespace

Matrix<double> centre_targets(const Problem& problem, std::vector<double>& offset) {
  const Index n = problem.count(), q = problem.outputs;
  Matrix<double> y(n, q);
  offset.assign(static_cast<std::size_t>(q), 0.0);
  for (Index c = 0; c < q; ++c) {
    double mean = 0, low = problem.targets(0, c), high = low;
    for (Index i = 0; i < n; ++i) {
      const double value = problem.targets(i, c);
      mean += value / static_cast<double>(n);
      low = std::min(low, value);
      high = std::max(high, value);
    }
    const double centre = !problem.options.intercept ? 0.0 : low == high ? low : mean;
    offset[static_cast<std::size_t>(c)] = centre;
    for (Index i = 0; i < n; ++i) y(i, c) = problem.targets(i, c) - centre;
  }
  return y;
}

bool are_constant(MatrixView<const double> y, const Problem& problem, FitReport& report) {
  if (!all_zero(y)) return false;
  report.method = "constant targets";
  report.ridge_rule = problem.options.ridge ? "given" : "constant targets";
  return true;
}

}  // namespace headlens::training

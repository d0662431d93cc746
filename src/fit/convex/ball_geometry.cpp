#include "fit/convex/ball_geometry.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "headlens/error.hpp"

namespace headlens::training {
namespace {

struct Size {
  double sum = 0, square = 0, length = 0;  // |.|_1, |.|_2^2, |.|_2
};

Size size_above(const std::vector<double>& norms, double threshold) {
  Size out;
  for (const double z : norms) {
    const double s = std::max(0.0, z - threshold);
    out.sum += s;
    out.square += s * s;
  }
  out.length = std::sqrt(out.square);
  return out;
}

std::vector<double> shrink(std::vector<double> norms, double threshold, double factor) {
  for (double& z : norms) z = factor * std::max(0.0, z - threshold);
  return norms;
}

// sum max(0, z - t) = k1: t -> t + (sum - k1) / #{z > t} rises to the root in finitely many steps (Michelot
// 1986).
double threshold_for_sum(const std::vector<double>& norms, double k1) {
  double t = 0;
  for (std::size_t step = 0; step <= norms.size(); ++step) {
    double sum = 0, count = 0;
    for (const double z : norms)
      if (z > t) sum += z - t, ++count;
    if (sum <= k1 || t + (sum - k1) / count <= t) break;
    t += (sum - k1) / count;
  }
  return t;
}

// |S_t|_1 = ratio |S_t|_2 by bisection; 0 when the ratio is met at once, max(norms) when it never is.
double threshold_for_ratio(const std::vector<double>& norms, double ratio) {
  const auto too_spread = [&](double t) {
    const Size size = size_above(norms, t);
    return size.sum > ratio * size.length;
  };
  double low = 0, high = norms.empty() ? 0 : *std::max_element(norms.begin(), norms.end());
  if (!too_spread(low)) return low;
  for (;;) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) return high;
    (too_spread(middle) ? low : high) = middle;
  }
}

// Rounding may leave a radius exceeded by some 1e-16 of it.
void pull_inside(const NormBall& ball, std::vector<double>& norms) {
  const Size size = size_above(norms, 0);
  const double factor = std::min(size.sum > ball.k1 ? ball.k1 / size.sum : 1,
                                 size.square > ball.k2 ? std::sqrt(ball.k2) / size.length : 1);
  for (double& r : norms) r *= factor;
}

}  // namespace

std::vector<double> project_norms(const NormBall& ball, const std::vector<double>& norms) {
  const Size size = size_above(norms, 0);
  if (size.sum <= ball.k1 && size.square <= ball.k2) return norms;
  const double radius = std::sqrt(ball.k2);
  std::vector<double> out;
  if (size.square > ball.k2 && size.sum * (radius / size.length) <= ball.k1) {
    out = shrink(norms, 0, radius / size.length);
  } else {
    const double threshold = threshold_for_sum(norms, ball.k1);
    out = shrink(norms, threshold, 1);
    if (size_above(out, 0).square > ball.k2) {
      const double both = threshold_for_ratio(norms, ball.k1 / radius);
      const double length = size_above(norms, both).length;
      if (length > 0) out = shrink(norms, both, radius / length);  // 0: ties at the top, to rounding
    }
  }
  pull_inside(ball, out);
  return out;
}

double support_of_norms(const NormBall& ball, const std::vector<double>& norms) {
  const double radius = std::sqrt(ball.k2);
  if (std::isinf(ball.k1)) return radius * size_above(norms, 0).length;
  const double top = norms.empty() ? 0 : *std::max_element(norms.begin(), norms.end());
  if (std::isinf(radius)) return ball.k1 * top;
  const double threshold = threshold_for_ratio(norms, ball.k1 / radius);
  return ball.k1 * threshold + radius * size_above(norms, threshold).length;
}

Groups::Groups(std::vector<Index> group_of_row) : group_of_row_(std::move(group_of_row)) {
  for (const Index g : group_of_row_) {
    ensure(g >= -1, "norm ball: group ", g);
    count_ = std::max(count_, g + 1);
  }
}

std::vector<double> Groups::norms(MatrixView<const double> v) const {
  ensure(v.rows == static_cast<Index>(group_of_row_.size()), "norm ball: ", v.rows, " rows, ",
         group_of_row_.size(), " groups of rows");
  std::vector<double> out(static_cast<std::size_t>(count_), 0.0);
  for (Index i = 0; i < v.rows; ++i) {
    const Index g = group_of_row_[static_cast<std::size_t>(i)];
    for (Index c = 0; g >= 0 && c < v.cols; ++c) out[static_cast<std::size_t>(g)] += v(i, c) * v(i, c);
  }
  for (double& norm : out) norm = std::sqrt(norm);
  return out;
}

void Groups::project(const NormBall& ball, MatrixView<double> v) const {
  const std::vector<double> before = norms(v);
  const std::vector<double> after = project_norms(ball, before);
  for (Index i = 0; i < v.rows; ++i) {
    const Index g = group_of_row_[static_cast<std::size_t>(i)];
    const auto m = static_cast<std::size_t>(std::max<Index>(g, 0));
    const double factor = g < 0 || before[m] == 0 ? 0 : after[m] / before[m];
    for (Index c = 0; c < v.cols; ++c) v(i, c) *= factor;
  }
}

}  // namespace headlens::training

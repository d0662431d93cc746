#include "match/overlaps.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "headlens/error.hpp"

namespace headlens::matching {
namespace {

// Distances sum up to four squares of norms: (|A| + |B|)^2 is at most four times the larger square.
constexpr double kLargestSquare = std::numeric_limits<double>::max() / 8;

std::vector<double> norms_of(const FormStack& stack, const char* what, const std::string& layer,
                             int threads) {
  const Matrix<double> squares = inner_products(stack, stack, threads);
  std::vector<double> out;
  for (Index i = 0; i < stack.heads; ++i) {
    require(std::abs(squares(i, i)) <= kLargestSquare, "match: ", layer, ": |", what, "|^2 of head ", i,
            " is ", squares(i, i),
            ", too large for float64; divide the weights of both layers by one number");
    out.push_back(std::sqrt(std::max(0.0, squares(i, i))));
  }
  return out;
}

}  // namespace

Forms make_forms(const LayerHeads& layer, bool dense_theta, bool dense_w, int threads) {
  Forms out{theta_forms(layer), w_forms(layer), {}, {}};
  if (dense_theta && !out.theta.dense()) out.theta = multiplied_out(out.theta);
  if (dense_w && !out.w.dense()) out.w = multiplied_out(out.w);
  out.theta_norms = norms_of(out.theta, "Theta", layer.name, threads);
  out.w_norms = norms_of(out.w, "W", layer.name, threads);
  return out;
}

double relative(double difference, double a, double b) {
  const double scale = std::hypot(a, b) / std::sqrt(2.0);
  return scale == 0 ? 0 : difference / scale;  // NaN stays NaN
}

Overlaps find_overlaps(const Forms& a, const Forms& b, int threads) {
  Overlaps out{inner_products(a.theta, b.theta, threads), inner_products(a.w, b.w, threads),
               Matrix<double>::zeros(a.theta.heads, b.theta.heads)};
  const auto scale = [&](Matrix<double>& products, const std::vector<double>& x,
                         const std::vector<double>& y) {
    for (Index i = 0; i < products.rows(); ++i)
      for (Index j = 0; j < products.cols(); ++j) {
        const double p = x[static_cast<std::size_t>(i)], q = y[static_cast<std::size_t>(j)];
        out.cost(i, j) += relative(std::sqrt(std::max(0.0, p * p + q * q - 2 * products(i, j))), p, q);
        products(i, j) = p > 0 && q > 0 ? std::clamp(products(i, j) / p / q, -1.0, 1.0) : 0;
      }
  };
  scale(out.theta, a.theta_norms, b.theta_norms);
  scale(out.w, a.w_norms, b.w_norms);
  return out;
}

void Within::add(const Overlaps& o) {
  for (Index i = 0; i < o.cost.rows(); ++i)
    for (Index j = 0; j < i; ++j)
      if (o.cost(i, j) > kSameDistance) ++pairs, largest = std::max(largest, o.mean(i, j));
}

void Within::add(const Within& other) {
  pairs += other.pairs;
  largest = std::max(largest, other.largest);
}

}  // namespace headlens::matching

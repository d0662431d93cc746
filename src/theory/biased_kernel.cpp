#include "theory/biased_kernel.hpp"

#include <cmath>

#include "base/parallel.hpp"
#include "headlens/error.hpp"
#include "linalg/eigen.hpp"
#include "linalg/multiply.hpp"
#include "theory/gauss_rule.hpp"
#include "theory/relu_series.hpp"

namespace headlens {
namespace {

// moments(k, a) = 2^-k m(k, a) = (c)_k / (2c)_k prod_{j < a} (k - j) / (k + d - 1 + j), c = (d - 1) / 2
Matrix<double> key_moments(Index dim, Index terms, Index degrees) {
  const double d = static_cast<double>(dim), c = 0.5 * (d - 1);
  Matrix<double> out = Matrix<double>::zeros(terms, degrees);
  double start = 1;
  for (Index k = 0; k < terms; ++k) {
    const double t = static_cast<double>(k);
    out(k, 0) = start;
    for (Index a = 0; a + 1 < degrees; ++a) {
      const double j = static_cast<double>(a);
      out(k, a + 1) = out(k, a) * std::max(0.0, t - j) / (t + d - 1 + j);
    }
    start *= (c + t) / (2 * c + t);
  }
  return out;
}

// Columns of `out`: rows of Q^T diag(values) Q, scaled by the roots of the weights; only where they are not
// 0.
Matrix<double> weighted_columns(const SymmetricEigen& eigen, const std::vector<double>& values,
                                const std::vector<double>& weights, Index rows) {
  const Index count = static_cast<Index>(values.size());
  std::vector<Index> used;
  for (Index j = 0; j < count; ++j)
    if (weights[static_cast<std::size_t>(j)] > 0) used.push_back(j);
  const Index columns = static_cast<Index>(used.size());
  Matrix<double> right(count, columns), out(rows, columns);
  for (Index k = 0; k < count; ++k)
    for (Index j = 0; j < columns; ++j) {
      const Index at = used[static_cast<std::size_t>(j)];
      right(k, j) = values[static_cast<std::size_t>(k)] * eigen.vectors(k, at) *
                    std::sqrt(weights[static_cast<std::size_t>(at)]);
    }
  multiply(Trans::yes, Trans::no, 1.0, eigen.vectors.view().block(0, 0, count, rows), right, 0.0, out, 1);
  return out;
}

// Points within the box come first.
std::vector<LatticePoint> ordered(RotationType type, Index most_query, Index most_key, Index margin,
                                  Index& inside) {
  std::vector<LatticePoint> points, others;
  for (const LatticePoint& point : lattice(type, most_query + margin, most_key + margin))
    (point.query_degree <= most_query && point.key_degree <= most_key ? points : others).push_back(point);
  inside = static_cast<Index>(points.size());
  points.insert(points.end(), others.begin(), others.end());
  return points;
}

// f(X) e_start
std::vector<double> apply(const SymmetricEigen& eigen, const std::vector<LatticePoint>& points,
                          const RotationTarget& target) {
  std::size_t start = points.size();
  for (std::size_t i = 0; i < points.size(); ++i)
    if (points[i].query_degree == target.start.query_degree &&
        points[i].key_degree == target.start.key_degree)
      start = i;
  ensure(start < points.size(), "a target begins outside the lattice");
  std::vector<double> out(points.size(), 0.0);
  if (!target.function) out[start] = target.factor;
  for (std::size_t k = 0; target.function && k < points.size(); ++k) {
    const double value = target.function(eigen.values[k]);
    const double share =
        target.factor * value * eigen.vectors(static_cast<Index>(k), static_cast<Index>(start));
    for (std::size_t i = 0; i < points.size(); ++i)
      out[i] += share * eigen.vectors(static_cast<Index>(k), static_cast<Index>(i));
  }
  if (target.pure)
    for (std::size_t i = 0; i < points.size(); ++i)
      if (points[i].query_degree == 0 || points[i].key_degree == 0) out[i] = 0;
  return out;
}

}  // namespace

// c_k(b t) is far from a polynomial of low degree where b is large.
Index BiasedKernel::margin() const { return 4 + static_cast<Index>(std::ceil(2 * std::abs(bias_))); }

BiasedBlock BiasedKernel::block(RotationType type, Index most_query, Index most_key,
                                const RotationTarget* target) const {
  Index inside = 0;
  const std::vector<LatticePoint> points = ordered(type, most_query, most_key, margin(), inside);
  BiasedBlock out{{points.begin(), points.begin() + inside}, Matrix<double>::zeros(inside, inside), {}, 0};
  if (inside == 0) return out;
  const SymmetricEigen eigen = symmetric_eigen(product_matrix(dim_, type, points));
  ensure(eigen.ok(), "no eigenvalues of a product matrix");
  const Index degrees = std::max(most_query, most_key) + margin() + 1, terms = 6 * degrees;
  const Matrix<double> moments = key_moments(dim_, terms + 1, degrees);
  std::vector<std::vector<double>> series;  // of relu, at the eigenvalues of b X
  for (const double t : eigen.values) series.push_back(relu_series(bias_ * t, terms));
  for (Index k = 0; k < terms; ++k) {
    heed();
    std::vector<double> weights, values;
    for (const LatticePoint& point : points)
      weights.push_back(2 * moments(k, point.query_degree) * moments(k + 1, point.key_degree));
    for (const std::vector<double>& c : series) values.push_back(c[static_cast<std::size_t>(k)]);
    const Matrix<double> half = weighted_columns(eigen, values, weights, inside);
    if (half.cols() > 0) multiply(Trans::no, Trans::yes, 1.0, half, half, 1.0, out.kernel, 1);
  }
  if (target == nullptr) return out;
  out.target = apply(eigen, points, *target);
  for (std::size_t i = static_cast<std::size_t>(inside); i < points.size(); ++i)
    out.beyond += out.target[i] * out.target[i];
  out.target.resize(static_cast<std::size_t>(inside));
  return out;
}

double BiasedKernel::diagonal() const {
  const GaussRule rule = coordinate_rule(64, dim_);
  double sum = 0;
  for (std::size_t i = 0; i < rule.nodes.size(); ++i)
    sum += rule.weights[i] * 2 * relu_square(bias_ * rule.nodes[i]);
  return sum;
}

double BiasedKernel::most() const { return 2 * relu_square(std::abs(bias_)); }

// t and t' are independent, and v = t t' + sqrt((1 - t^2)(1 - t'^2)) s, s a coordinate in one dimension
// fewer.
double BiasedKernel::between_keys() const {
  constexpr Index kNodes = 24, kTerms = 96;
  const GaussRule rule = coordinate_rule(kNodes, dim_), beside = coordinate_rule(kNodes, dim_ - 1);
  std::vector<std::vector<double>> series;
  for (const double t : rule.nodes) series.push_back(relu_series(bias_ * t, kTerms));
  double sum = 0;
  for (std::size_t i = 0; i < rule.nodes.size(); ++i)
    for (std::size_t j = 0; j < rule.nodes.size(); ++j) {
      heed();
      const double t = rule.nodes[i], other = rule.nodes[j],
                   across = std::sqrt((1 - t * t) * (1 - other * other));
      for (std::size_t l = 0; l < beside.nodes.size(); ++l) {
        const double v = t * other + across * beside.nodes[l];
        double power = 1 + v, kernel = 0;  // (1 + v) ((1 + v) / 2)^k
        for (std::size_t k = 0; k < kTerms; ++k, power *= 0.5 * (1 + v))
          kernel += series[i][k] * series[j][k] * power;
        sum += rule.weights[i] * rule.weights[j] * beside.weights[l] * kernel;
      }
    }
  return sum;
}

}  // namespace headlens

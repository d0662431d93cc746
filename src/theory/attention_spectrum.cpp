#include "theory/attention_spectrum.hpp"

#include <cmath>
#include <limits>
#include <numbers>

#include "base/log_gamma.hpp"
#include "headlens/error.hpp"
#include "linalg/multiply.hpp"
#include "theory/gauss_rule.hpp"
#include "theory/harmonics.hpp"

namespace headlens {
namespace {

constexpr Index kSingleTerms = 1024;  // of even t
constexpr Index kOctaves = 36;        // to t = 1e14
constexpr Index kGaussNodes = 20;
constexpr Index kMaxLevelDegree = 511;  // four times that is the largest degree the nodes allow

// log(Gamma(z + delta) / Gamma(z)); Stirling's series differs little from z to z + delta, log Gamma much.
double log_gamma_ratio(double z, double delta) {
  if (z < 32) return log_gamma(z + delta) - log_gamma(z);
  const auto correction = [](double x) {
    const double s = 1 / (x * x);
    return (1.0 / 12 - s * (1.0 / 360 - s * (1.0 / 1260 - s * (1.0 / 1680 - s / 1188)))) / x;
  };
  return delta * std::log(z + delta) + (z - 0.5) * std::log1p(delta / z) - delta + correction(z + delta) -
         correction(z);
}

// a_t for t = 2j + 2: binomial(2j, j) 4^-j / (2 pi (2j + 1)(2j + 2)), a smooth function of j.
double even_coefficient(double j) {
  const double central = std::exp(-log_gamma_ratio(j + 0.5, 0.5)) / std::sqrt(std::numbers::pi);
  return central / (2 * std::numbers::pi * (2 * j + 1) * (2 * j + 2));
}

// Nodes that sum polynomials of degree 39 over j = first .. first + count - 1 exactly: the discrete Chebyshev
// (Gram) polynomials have the Jacobi matrix with diagonal (count - 1)/2 and squares k^2 (count^2 - k^2) /
// (4 (4k^2 - 1)) beside it.
void add_octave(double first, double count, std::vector<SeriesNode>& nodes) {
  std::vector<double> squares;
  for (Index k = 1; k < kGaussNodes; ++k) {
    const double square = static_cast<double>(k * k);
    squares.push_back(square / (4 * (4 * square - 1)) * (1 - square / (count * count)));
  }
  const GaussRule rule = gauss_rule(std::vector<double>(kGaussNodes, 0.0), squares);
  for (std::size_t k = 0; k < rule.nodes.size(); ++k) {
    const double j = first + 0.5 * (count - 1) + count * rule.nodes[k];
    nodes.push_back({2 * j + 2, count * rule.weights[k] * even_coefficient(j)});
  }
}

std::vector<SeriesNode> series_nodes() {
  std::vector<SeriesNode> nodes{{0, 1 / (2 * std::numbers::pi)}, {1, 0.25}};
  for (Index j = 0; j < kSingleTerms; ++j)
    nodes.push_back({static_cast<double>(2 * j + 2), even_coefficient(static_cast<double>(j))});
  double count = static_cast<double>(kSingleTerms);
  for (Index octave = 0; octave < kOctaves; ++octave, count *= 2) add_octave(count, count, nodes);
  return nodes;
}

// log prod_{k < a} (t - k) / (t + d - 1 + k), one logarithm for several factors.
double log_descent(double t, double dim, Index degree) {
  if (t <= static_cast<double>(degree - 1)) return -std::numeric_limits<double>::infinity();
  double sum = 0, product = 1;
  for (Index k = 0; k < degree; ++k) {
    product *= (t - static_cast<double>(k)) / (t + dim - 1 + static_cast<double>(k));
    if (product < 1e-200 || k + 1 == degree) {
      sum += std::log(product);
      product = 1;
    }
  }
  return sum;
}

// Column i of `out`: start times the same product, for every degree.
void fill_descent(double start, double t, double dim, Index column, Matrix<double>& out) {
  for (Index a = 0; a < out.rows(); ++a) {
    const double k = static_cast<double>(a);
    out(a, column) = start;
    start *= std::max(0.0, t - k) / (t + dim - 1 + k);
  }
}

}  // namespace

AttentionSpectrum::AttentionSpectrum(Index dim, Index keys)
    : dim_(static_cast<double>(dim)), keys_(static_cast<double>(keys)), nodes_(series_nodes()) {
  for (const SeriesNode& node : nodes_) {
    base_.push_back(log_moment(node.t, 0));
    next_.push_back(log_moment(node.t + 1, 0));
  }
}

double AttentionSpectrum::log_moment(double t, Index degree) const {
  const double c = 0.5 * (dim_ - 1);
  double log_start = 0;  // (c)_t / (2c)_t
  if (t <= 256)          // whole numbers; the difference of logarithms would lose digits in high dimensions
    for (double k = 0; k < t; ++k) log_start += std::log((c + k) / (2 * c + k));
  else
    log_start = log_gamma_ratio(c, c) - log_gamma_ratio(c + t, c);
  return log_start + log_descent(t, dim_, degree);
}

double AttentionSpectrum::pair_log_eigenvalue(Index query_degree, Index key_degree) const {
  require(std::max(query_degree, key_degree) <= kMaxDegree, option("degree"), ": ",
          std::max(query_degree, key_degree), " harmonics asked for, at most ", kMaxDegree, " are known");
  std::vector<double> logs;
  double top = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const auto [t, weight] = nodes_[i];
    logs.push_back(std::log(2 * weight) + base_[i] + log_descent(t, dim_, query_degree) + next_[i] +
                   log_descent(t + 1, dim_, key_degree));
    top = std::max(top, logs.back());
  }
  double sum = 0;
  for (const double log_term : logs) sum += std::exp(log_term - top);
  return top + std::log(sum);
}

double AttentionSpectrum::log_eigenvalue(Index query_degree, Index key_degree) const {
  return pair_log_eigenvalue(query_degree, key_degree) - (key_degree > 0 ? std::log(keys_) : 0.0);
}

// E[K(x, x)]: a pair of equal keys contributes 2 kappa(1) = 1; a pair of different ones what the functions of
// the query alone do, sum_a D_a lambda_a0 = sum_t a_t 2^-t m(t + 1, 0).
double AttentionSpectrum::trace() const {
  double query = 0;
  for (std::size_t i = 0; i < nodes_.size(); ++i) query += 2 * nodes_[i].weight * std::exp(next_[i]);
  return (1 + (keys_ - 1) * query) / keys_;
}

Levels AttentionSpectrum::levels(Index degree) const {
  require(degree <= kMaxLevelDegree, option("samples"), ": harmonics beyond degree ", kMaxLevelDegree,
          " would be needed for so many sets in dimension ", dim_);
  // Functions of the query alone have eigenvalues N times larger and are few: more of their degrees are kept.
  const Index size = degree + 2, line_size = 4 * degree + 2, count = static_cast<Index>(nodes_.size());
  Matrix<double> query(line_size, count), key(size, count);  // weight m(t, a), m(t + 1, b)
  for (Index i = 0; i < count; ++i) {
    const auto [t, weight] = nodes_[static_cast<std::size_t>(i)];
    fill_descent(2 * weight * std::exp(base_[static_cast<std::size_t>(i)]), t, dim_, i, query);
    fill_descent(std::exp(next_[static_cast<std::size_t>(i)]), t + 1, dim_, i, key);
  }
  Matrix<double> pairs(size, size), line(line_size, 1);
  multiply(Trans::no, Trans::yes, 1.0, query.view().block(0, 0, size, count), key, 0.0, pairs, 1);
  multiply(Trans::no, Trans::yes, 1.0, query, key.view().block(0, 0, 1, count), 0.0, line, 1);

  Levels out;
  double kept = 0;
  const auto keep = [&](double eigenvalue, double log_multiplicity) {
    out.kept.push_back({eigenvalue, std::exp(log_multiplicity)});
    kept += eigenvalue * out.kept.back().multiplicity;
  };
  std::vector<double> harmonics;
  for (Index a = 0; a < line_size; ++a) harmonics.push_back(log_harmonics(static_cast<Index>(dim_), a));
  for (Index a = 1; a + 1 < line_size; ++a) keep(line(a, 0), harmonics[static_cast<std::size_t>(a)]);
  for (Index a = 0; a <= degree; ++a)
    for (Index b = 1; b <= degree; ++b)
      keep(pairs(a, b) / keys_,
           harmonics[static_cast<std::size_t>(a)] + harmonics[static_cast<std::size_t>(b)]);
  out.trace = trace() - line(0, 0);
  out.rest = std::max(0.0, out.trace - kept);
  out.largest_left_out =
      std::max({line(line_size - 1, 0), pairs(degree + 1, 1) / keys_, pairs(0, degree + 1) / keys_});
  return out;
}

}  // namespace headlens

#include "theory/head_spectrum.hpp"

#include <cmath>

#include "base/parallel.hpp"
#include "headlens/error.hpp"
#include "linalg/multiply.hpp"
#include "theory/gauss_rule.hpp"
#include "theory/harmonics.hpp"
#include "theory/relu_series.hpp"

namespace headlens {
namespace {

constexpr Index kThresholds = 9;
constexpr Index kMaxHeadDegree = 64;
constexpr double kVariance = 0.75;  // of the score, given the threshold

// moments(a, p) = E[T^p P_a(T)]
Matrix<double> moments(Index dim, Index degrees, Index powers) {
  Matrix<double> out = Matrix<double>::zeros(degrees, powers);
  for (Index a = 0; a < degrees; ++a)
    for (Index p = a; p < powers; p += 2) out(a, p) = std::exp(log_monomial_share(dim, p, a));
  return out;
}

// Coefficients of a^i b^j in 3/4 sum_t c_t(h)^2 / t! ((a + b + a b) / 3)^t, one matrix per h.
std::vector<Matrix<double>> score_kernels(const std::vector<double>& h, Index powers) {
  std::vector<Matrix<double>> kernels;
  std::vector<std::vector<double>> series;
  for (const double value : h) {
    kernels.push_back(Matrix<double>::zeros(powers, powers));
    series.push_back(relu_series(value, powers));
  }
  Matrix<double> power = Matrix<double>::zeros(powers, powers);  // ((a + b + a b) / 3)^t
  power(0, 0) = 1;
  for (Index t = 0; t < powers; ++t) {
    heed();
    for (std::size_t q = 0; q < h.size(); ++q) {
      const double c = series[q][static_cast<std::size_t>(t)], weight = kVariance * c * c;
      for (Index i = 0; i <= t; ++i)
        for (Index j = 0; j <= t; ++j) kernels[q](i, j) += weight * power(i, j);
    }
    if (t + 1 == powers) break;
    for (Index i = t + 1; i >= 0; --i)  // downwards, so that what is read is still the old power
      for (Index j = t + 1; j >= 0; --j)
        power(i, j) = ((i > 0 ? power(i - 1, j) : 0.0) + (j > 0 ? power(i, j - 1) : 0.0) +
                       (i > 0 && j > 0 ? power(i - 1, j - 1) : 0.0)) /
                      3;
  }
  return kernels;
}

// sum_ij query(a, i) kernel(i, j) key(b, j + shift)
Matrix<double> project(MatrixView<const double> query, const Matrix<double>& kernel,
                       MatrixView<const double> key, Index shift) {
  const Index powers = kernel.rows();
  Matrix<double> half(query.rows, powers), out(query.rows, key.rows);
  multiply(Trans::no, Trans::no, 1.0, query, kernel, 0.0, half, 1);
  multiply(Trans::no, Trans::yes, 1.0, half, key.block(0, shift, key.rows, powers), 0.0, out, 1);
  return out;
}

// The same for a = 1, between different keys of one query: sum_ij kernel(i, j) E[T^(j + shift)].
double between_keys(const Matrix<double>& kernel, const Matrix<double>& moment, Index shift) {
  double sum = 0;
  for (Index i = 0; i < kernel.rows(); ++i)
    for (Index j = 0; j < kernel.cols(); ++j) sum += kernel(i, j) * moment(0, j + shift);
  return sum;
}

void add_levels(HeadSpectrum& out, Index dim, Index line, Index degree) {
  const auto add = [&](Index a, Index b) {
    out.levels.push_back({a, b, std::exp(log_harmonics(dim, a) + log_harmonics(dim, b)), {}});
  };
  for (Index a = 1; a <= line; ++a) add(a, 0);
  for (Index a = 0; a <= degree; ++a)
    for (Index b = 1; b <= degree; ++b) add(a, b);
}

}  // namespace

HeadSpectrum head_spectrum(Index dim, Index keys, Index degree) {
  require(degree <= kMaxHeadDegree, option("samples"), ": harmonics of degree ", degree,
          " would be needed for so many sets in dimension ", dim, "; with finitely many heads at most ",
          kMaxHeadDegree, " are known");
  const Index line = 4 * degree, powers = std::max(Index{96}, 2 * line);
  const double n = static_cast<double>(keys);
  const GaussRule thresholds = normal_rule(kThresholds);
  std::vector<double> h;
  for (const double node : thresholds.nodes) h.push_back(0.5 * node / std::sqrt(kVariance));
  const Matrix<double> moment = moments(dim, line + 1, powers + 1);
  const MatrixView<const double> query = moment.view().block(0, 0, line + 1, powers),
                                 key = moment.view().block(0, 0, degree + 1, powers + 1);
  const std::vector<Matrix<double>> kernels = score_kernels(h, powers);
  HeadSpectrum out;
  add_levels(out, dim, line, degree);
  for (std::size_t q = 0; q < h.size(); ++q)
    for (const Index shift : {1, 0}) {  // relu(score) x_i, relu(score)
      const double share = thresholds.weights[q], square = kVariance * relu_square(h[q]);
      const Matrix<double> pairs = project(query, kernels[q], key, shift);
      const double trace =
          share * ((square + (n - 1) * between_keys(kernels[q], moment, shift)) / n - pairs(0, 0));
      double kept = 0;
      for (HeadLevel& level : out.levels) {
        const double value = share * pairs(level.query_degree, level.key_degree);
        level.eigenvalues.push_back(level.key_degree > 0 ? value / n : value);
        kept += level.eigenvalues.back() > 0 ? level.eigenvalues.back() * level.multiplicity : 0.0;
      }
      out.features.push_back(share * (shift == 1 ? static_cast<double>(dim) : 1.0));
      out.rest.push_back(std::max(0.0, trace - kept));
      out.trace += trace;
    }
  return out;
}

}  // namespace headlens

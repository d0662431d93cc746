#include "recover/certificate/whiteness.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/parallel.hpp"
#include "base/random.hpp"

namespace headlens::recovery {
namespace {

constexpr int kFunctions = 64;  // of each kind

double token_correlation(const Matrix<double>& residual, Index k) {
  double sum = 0, squares = 0;
  for (Index example = 0; example < residual.rows(); example += k)
    for (Index a = 0; a < k; ++a)
      for (Index b = 0; b < a; ++b)
        for (Index c = 0; c < residual.cols(); ++c) {
          const double product = residual(example + a, c) * residual(example + b, c);
          sum += product;
          squares += product * product;
        }
  return squares > 0 ? sum / std::sqrt(squares) : 0;
}

double dot(const double* a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t j = 0; j < b.size(); ++j) sum += a[j] * b[j];
  return sum;
}

std::vector<double> random_direction(Stream& stream, Index dim) {
  std::vector<double> out(static_cast<std::size_t>(dim));
  for (double& x : out) x = stream.normal() / std::sqrt(static_cast<double>(dim));
  return out;
}

// Values of one random function on every row: (u.x_a)(v.s)(w.s) or relu(u.x_a + v.s), s the sum of the tokens
// over sqrt(k).
std::vector<double> random_function(const Split& split, const Matrix<double>& sums, std::uint64_t seed,
                                    int index) {
  Stream stream(seed, "whiteness", static_cast<std::uint64_t>(index));
  const Index d = split.train_x.cols, k = split.tokens;
  const auto u = random_direction(stream, d), v = random_direction(stream, d),
             w = random_direction(stream, d);
  std::vector<double> values(static_cast<std::size_t>(split.train_x.rows));
  for (Index row = 0; row < split.train_x.rows; ++row) {
    const double own = dot(split.train_x.row(row), u);
    const double* s = sums.view().row(row / k);
    values[static_cast<std::size_t>(row)] =
        index % 2 == 0 ? (1 + own) * dot(s, v) * dot(s, w) : std::max(0.0, own + dot(s, v));
  }
  return values;
}

double function_correlation(const Split& split, const Matrix<double>& residual, std::uint64_t seed) {
  const Index k = split.tokens, d = split.train_x.cols, rows = residual.rows();
  Matrix<double> sums = Matrix<double>::zeros(rows / k, d);
  for (Index row = 0; row < rows; ++row)
    for (Index j = 0; j < d; ++j)
      sums(row / k, j) += split.train_x(row, j) / std::sqrt(static_cast<double>(k));
  double largest = 0;
  for (int index = 0; index < 2 * kFunctions; ++index) {
    heed();
    const std::vector<double> g = random_function(split, sums, seed, index);
    for (Index c = 0; c < residual.cols(); ++c) {
      double sum = 0, squares = 0;
      for (Index row = 0; row < rows; ++row) {
        const double product = g[static_cast<std::size_t>(row)] * residual(row, c);
        sum += product;
        squares += product * product;
      }
      if (squares > 0) largest = std::max(largest, std::abs(sum) / std::sqrt(squares));
    }
  }
  return largest;
}

}  // namespace

Whiteness residual_whiteness(const Split& split, const Candidate& candidate, std::uint64_t seed,
                             int threads) {
  return residual_whiteness(
      split, residual_on(split.train_x, split.train_y, split.tokens, candidate.theta, candidate.w, threads),
      candidate.heads(), seed);
}

Whiteness residual_whiteness(const Split& split, const Matrix<double>& residual, Index heads,
                             std::uint64_t seed) {
  const double d = static_cast<double>(split.train_x.cols), e = static_cast<double>(residual.cols());
  const double pairs = static_cast<double>(residual.rows() * (split.tokens - 1)) / 2 * e;
  return {token_correlation(residual, split.tokens), function_correlation(split, residual, seed),
          static_cast<double>(heads) * d * (d + e) / std::sqrt(pairs)};
}

}  // namespace headlens::recovery

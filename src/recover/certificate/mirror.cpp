#include "recover/certificate/mirror.hpp"

#include <cmath>

#include "base/parallel.hpp"
#include "linalg/blas.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::recovery {
namespace {

constexpr Index kMostSubsets = 12;  // heads of which every subset is tried; of more, single ones and pairs
constexpr double kSame = 1e-9;      // of a token: two that differ by less are the same but for rounding
constexpr double kAbove = 10;       // times the error of the labels: a difference that would show

std::vector<std::vector<Index>> subsets(const std::vector<Index>& heads) {
  std::vector<std::vector<Index>> out;
  const auto count = static_cast<Index>(heads.size());
  if (count <= kMostSubsets) {
    for (Index mask = 1; mask < (Index{1} << count); ++mask) {
      out.emplace_back();
      for (Index j = 0; j < count; ++j)
        if (mask >> j & 1) out.back().push_back(heads[static_cast<std::size_t>(j)]);
    }
    return out;
  }
  for (std::size_t i = 0; i < heads.size(); ++i) {
    out.push_back({heads[i]});
    for (std::size_t j = 0; j < i; ++j) out.push_back({heads[j], heads[i]});
  }
  return out;
}

// Is every example its own reflection around its mean?
bool all_symmetric(MatrixView<const double> x, Index k) {
  const Index d = x.cols;
  for (Index first = 0; k > 2 && first < x.rows; first += k) {
    std::vector<double> twice_mean(static_cast<std::size_t>(d));
    double size = 0;
    for (Index t = 0; t < k; ++t)
      for (Index q = 0; q < d; ++q) {
        twice_mean[static_cast<std::size_t>(q)] += 2 * x(first + t, q) / static_cast<double>(k);
        size = std::max(size, std::abs(x(first + t, q)));
      }
    std::vector<bool> taken(static_cast<std::size_t>(k));
    for (Index t = 0; t < k; ++t) {
      bool found = false;
      for (Index u = 0; u < k && !found; ++u) {
        double away = 0;
        for (Index q = 0; q < d; ++q)
          away = std::max(
              away, std::abs(twice_mean[static_cast<std::size_t>(q)] - x(first + t, q) - x(first + u, q)));
        if (taken[static_cast<std::size_t>(u)] || away > kSame * size) continue;
        taken[static_cast<std::size_t>(u)] = found = true;
      }
      if (!found) return false;
    }
  }
  return true;
}

}  // namespace

std::vector<Index> mirrored_heads(const Split& examples, const Candidate& candidate, double label_error,
                                  const std::vector<HeadBound>& bounds) {
  if (!all_symmetric(examples.train_x, examples.tokens)) return {};
  const Index k = examples.tokens;
  const Index d = candidate.theta.rows(), m = candidate.heads(), e = candidate.w.cols();
  std::vector<Index> attending;
  for (Index i = 0; i < m; ++i)
    if (squared_norm(candidate.theta.view().block(0, i * d, d, d)) > 0) attending.push_back(i);
  const bool any_mean = static_cast<Index>(attending.size()) < m;
  if (any_mean) return attending;
  for (Index i = 0; i < m; ++i)
    for (Index j = 0; j < i; ++j) {
      double squares = 0;
      for (Index a = 0; a < d; ++a)
        for (Index b = 0; b < d; ++b)
          squares += std::pow(candidate.theta(a, i * d + b) + candidate.theta(a, j * d + b), 2);
      const double bar =
          bounds[static_cast<std::size_t>(i)].theta + bounds[static_cast<std::size_t>(j)].theta;
      if (std::sqrt(squares) < kAbove * bar) return {j, i};
    }
  const Index rows = examples.train_x.rows;
  Matrix<double> sums = Matrix<double>::zeros(rows / k, d), moved(rows / k, e);  // 2 c of every example
  for (Index row = 0; row < rows; ++row)
    for (Index q = 0; q < d; ++q) sums(row / k, q) += 2 * examples.train_x(row, q) / static_cast<double>(k);
  for (const std::vector<Index>& turned : subsets(attending)) {
    heed();
    Matrix<double> w = Matrix<double>::zeros(d, e);
    for (const Index i : turned)
      for (Index q = 0; q < d; ++q)
        for (Index c = 0; c < e; ++c) w(q, c) += candidate.w(i * d + q, c);
    gemm(Trans::no, Trans::no, 1.0, sums.view(), w.view(), 0.0, moved.view());
    if (std::sqrt(static_cast<double>(k) * squared_norm(moved)) < kAbove * label_error) return turned;
  }
  return {};
}

}  // namespace headlens::recovery

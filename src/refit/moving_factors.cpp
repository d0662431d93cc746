#include "refit/moving_factors.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/parallel.hpp"
#include "linalg/multiply.hpp"
#include "linalg/vector_space.hpp"
#include "refit/whiten.hpp"

namespace headlens::refitting {
namespace {

constexpr float kMean = 0.9f;
constexpr double kSmallest = 1e-12;  // of the largest squared singular value: float gradients know no less

Matrix<double> copied(const Matrix<float>& all, const FactorBlock& block) {
  Matrix<double> out(block.rows, block.columns);
  for (Index i = 0; i < block.rows; ++i)
    for (Index j = 0; j < block.columns; ++j)
      out(i, j) = static_cast<double>(all(block.row + i, block.column + j));
  return out;
}

// M (M^T M)^(-1/2), or (M M^T)^(-1/2) M where that is smaller. Zero or infinite gradients give no step.
Matrix<double> orthonormal_part(const Matrix<double>& m) {
  const bool tall = m.rows() >= m.cols();
  const Index size = std::min(m.rows(), m.cols());
  const MatrixView<const double> a = m.view();
  Matrix<double> gram(size, size), out = Matrix<double>::zeros(m.rows(), m.cols());
  multiply(tall ? Trans::yes : Trans::no, tall ? Trans::no : Trans::yes, 1.0, a, a, 0.0, gram.view(), 1);
  const SymmetricEigen eigen = symmetric_eigen(gram.view());
  if (!eigen.ok() || !(eigen.values.back() > 0)) return out;
  const Matrix<double> root = power_of(eigen, kSmallest * eigen.values.back(), -0.5, 1);
  multiply(Trans::no, Trans::no, 1.0, tall ? a : root.view(), tall ? root.view() : a, 0.0, out.view(), 1);
  return out;
}

}  // namespace

MovingFactors::MovingFactors(const Matrix<double>& start, std::vector<FactorBlock> blocks,
                             const std::vector<Index>& ends)
    : value(start.rows(), start.cols()),
      gradient(start.rows(), start.cols()),
      mean_(Matrix<float>::zeros(start.rows(), start.cols())),
      blocks_(std::move(blocks)) {
  for (Index i = 0; i < start.rows() * start.cols(); ++i)
    value.data()[i] = static_cast<float>(start.data()[i]);
  set_sizes(ends);
}

void MovingFactors::set_sizes(const std::vector<Index>& ends) {
  const auto size_of = [&](std::size_t first, std::size_t end) {
    double sum = 0, count = 0;
    for (std::size_t b = first; b < end; ++b) {
      const Matrix<double> entries = copied(value, blocks_[b]);
      sum += squared_norm(entries.view());
      count += static_cast<double>(entries.rows() * entries.cols());
    }
    return std::sqrt(sum / std::max(count, 1.0));
  };
  const double all = std::max(size_of(0, blocks_.size()), 1e-6);
  std::size_t first = 0;
  for (const Index end : ends) {
    const double size = size_of(first, static_cast<std::size_t>(end));
    for (; first < static_cast<std::size_t>(end); ++first) blocks_[first].size = size > 0 ? size : all;
  }
}

void MovingFactors::step(double rate, int threads) {
  for (Index i = 0; i < value.rows() * value.cols(); ++i)
    mean_.data()[i] += (1 - kMean) * (gradient.data()[i] - mean_.data()[i]);
  parallel_for(threads, static_cast<Index>(blocks_.size()),
               [&](Index b, int) { move(blocks_[static_cast<std::size_t>(b)], rate); });
}

void MovingFactors::move(const FactorBlock& block, double rate) {
  const Matrix<double> along = orthonormal_part(copied(mean_, block));
  const double length =
      rate * block.size * std::sqrt(static_cast<double>(std::max(block.rows, block.columns)));
  for (Index i = 0; i < block.rows; ++i)
    for (Index j = 0; j < block.columns; ++j)
      value(block.row + i, block.column + j) -= static_cast<float>(length * along(i, j));
}

}  // namespace headlens::refitting

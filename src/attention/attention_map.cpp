#include "attention/attention_map.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/parallel.hpp"
#include "headlens/error.hpp"
#include "linalg/blas.hpp"
#include "linalg/tiles.hpp"

namespace headlens {
namespace {

constexpr Index kBlockRows = 512;  // tokens in a block, about: one product with Theta each

// p * (t - <p, t>) for every row: the softmax's derivative, which is its own adjoint.
void softmax_derivative(MatrixView<const double> p, MatrixView<double> t) {
  for (Index r = 0; r < p.rows; ++r) {
    double mean = 0;
    for (Index b = 0; b < p.cols; ++b) mean += p(r, b) * t(r, b);
    for (Index b = 0; b < p.cols; ++b) t(r, b) = p(r, b) * (t(r, b) - mean);
  }
}

}  // namespace

void softmax_row(double* logits, Index count) {
  double highest = logits[0], sum = 0;
  for (Index b = 1; b < count; ++b) highest = std::max(highest, logits[b]);
  for (Index b = 0; b < count; ++b) sum += logits[b] = std::exp(logits[b] - highest);
  for (Index b = 0; b < count; ++b) logits[b] /= sum;
}

AttentionMap::AttentionMap(MatrixView<const double> x, Index tokens, Index heads, int threads)
    : x_(x), tokens_(tokens), heads_(heads) {
  const double d = static_cast<double>(x.cols), k = static_cast<double>(tokens);
  threads_ = threads_for(static_cast<double>(x.rows * heads) * (2 * d * d + 4 * k * d) / 4, threads);
  ensure(x.rows % tokens == 0 && x.stride == x.cols, "attention map: ", x.rows, " rows of ", tokens,
         " tokens");
}

Index AttentionMap::block_count() const {
  return tile_count(x_.rows / tokens_, std::max<Index>(1, kBlockRows / tokens_));
}

AttentionMap::Block AttentionMap::block(Index b) const {
  const Tile tile = tile_at(x_.rows / tokens_, std::max<Index>(1, kBlockRows / tokens_), b);
  return {tile.begin, tile.size};
}

void AttentionMap::evaluate(MatrixView<const double> theta, MatrixView<double> p,
                            MatrixView<double> phi) const {
  const Index k = tokens_, m = heads_, d = dim();
  parallel_for(threads_, block_count(), [&](Index b, int) {
    const Block here = block(b);
    Matrix<double> u(here.count * k, m * d);
    gemm(Trans::no, Trans::no, 1.0, x_.block(here.first * k, 0, here.count * k, d), theta, 0.0, u.view());
    for (Index e = 0; e < here.count; ++e) {
      const Index row = (here.first + e) * k;
      const MatrixView<const double> x = x_.block(row, 0, k, d);
      const MatrixView<double> logits = p.block(row * m, 0, k * m, k);
      gemm(Trans::no, Trans::yes, 1.0, MatrixView<const double>(u.data() + e * k * m * d, k * m, d), x, 0.0,
           logits);
      for (Index r = 0; r < k * m; ++r) softmax_row(logits.row(r), k);
      gemm(Trans::no, Trans::no, 1.0, MatrixView<const double>(logits), x, 0.0,
           MatrixView<double>(phi.row(row), k * m, d));
    }
  });
}

void AttentionMap::values(MatrixView<const double> w, MatrixView<double> v) const {
  const Index k = tokens_, m = heads_, d = dim(), e = w.cols;
  parallel_for(threads_, block_count(), [&](Index b, int) {
    const Block here = block(b);
    for (Index example = here.first; example < here.first + here.count; ++example)
      for (Index i = 0; i < m; ++i)
        gemm(Trans::no, Trans::no, 1.0, x_.block(example * k, 0, k, d), w.block(i * d, 0, d, e), 0.0,
             v.block((example * m + i) * k, 0, k, e));
  });
}

void AttentionMap::derivative(MatrixView<const double> p, MatrixView<const double> v,
                              MatrixView<const double> dtheta, MatrixView<double> df) const {
  const Index k = tokens_, m = heads_, d = dim(), e = v.cols;
  parallel_for(threads_, block_count(), [&](Index b, int) {
    const Block here = block(b);
    Matrix<double> u(here.count * k, m * d), t(k * m, k);
    gemm(Trans::no, Trans::no, 1.0, x_.block(here.first * k, 0, here.count * k, d), dtheta, 0.0, u.view());
    for (Index example = 0; example < here.count; ++example) {
      const Index row = (here.first + example) * k;
      gemm(Trans::no, Trans::yes, 1.0, MatrixView<const double>(u.data() + example * k * m * d, k * m, d),
           x_.block(row, 0, k, d), 0.0, t.view());
      softmax_derivative(p.block(row * m, 0, k * m, k), t);
      gemm(Trans::no, Trans::no, 1.0, MatrixView<const double>(t.data(), k, m * k),
           v.block(row * m, 0, m * k, e), 0.0, df.block(row, 0, k, e));
    }
  });
}

void AttentionMap::adjoint(MatrixView<const double> p, MatrixView<const double> v, MatrixView<const double> g,
                           MatrixView<double> dtheta) const {
  const Index k = tokens_, m = heads_, d = dim(), e = v.cols;
  std::vector<Matrix<double>> parts(static_cast<std::size_t>(block_count()));
  parallel_for(threads_, block_count(), [&](Index b, int) {
    const Block here = block(b);
    Matrix<double> u(here.count * k, m * d), t(k * m, k);
    for (Index example = 0; example < here.count; ++example) {
      const Index row = (here.first + example) * k;
      gemm(Trans::no, Trans::yes, 1.0, g.block(row, 0, k, e), v.block(row * m, 0, m * k, e), 0.0,
           MatrixView<double>(t.data(), k, m * k));
      softmax_derivative(p.block(row * m, 0, k * m, k), t);
      gemm(Trans::no, Trans::no, 1.0, std::as_const(t).view(), x_.block(row, 0, k, d), 0.0,
           MatrixView<double>(u.data() + example * k * m * d, k * m, d));
    }
    Matrix<double> part(d, m * d);
    gemm(Trans::yes, Trans::no, 1.0, x_.block(here.first * k, 0, here.count * k, d), std::as_const(u).view(),
         0.0, part.view());
    parts[static_cast<std::size_t>(b)] = std::move(part);
  });
  for (Index i = 0; i < d; ++i) std::fill_n(dtheta.row(i), m * d, 0.0);
  for (const Matrix<double>& part : parts)
    for (Index i = 0; i < d; ++i)
      for (Index j = 0; j < m * d; ++j) dtheta(i, j) += part(i, j);
}

}  // namespace headlens

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

}  // namespace

template <class T>
void softmax_derivative(MatrixView<const T> p, MatrixView<T> t) {
  for (Index r = 0; r < p.rows; ++r) {
    T mean = 0;
    for (Index b = 0; b < p.cols; ++b) mean += p(r, b) * t(r, b);
    for (Index b = 0; b < p.cols; ++b) t(r, b) = p(r, b) * (t(r, b) - mean);
  }
}

template <class T>
void softmax_row(T* logits, Index count) {
  T highest = logits[0], sum = 0;
  for (Index b = 1; b < count; ++b) highest = std::max(highest, logits[b]);
  for (Index b = 0; b < count; ++b) sum += logits[b] = std::exp(logits[b] - highest);
  for (Index b = 0; b < count; ++b) logits[b] /= sum;
}

template <class T>
AttentionMap<T>::AttentionMap(MatrixView<const T> x, Index tokens, Index heads, int threads)
    : x_(x), transposed_(x.rows / tokens * x.cols, tokens), tokens_(tokens), heads_(heads) {
  const double d = static_cast<double>(x.cols), k = static_cast<double>(tokens);
  threads_ = threads_for(static_cast<double>(x.rows * heads) * (2 * d * d + 4 * k * d) / 4, threads);
  ensure(x.rows % tokens == 0 && x.stride == x.cols, "attention map: ", x.rows, " rows of ", tokens,
         " tokens");
  for (Index row = 0; row < x.rows; ++row)
    for (Index q = 0; q < x.cols; ++q) transposed_(row / tokens * x.cols + q, row % tokens) = x(row, q);
}

template <class T>
Index AttentionMap<T>::block_count() const {
  return tile_count(x_.rows / tokens_, std::max<Index>(1, kBlockRows / tokens_));
}

template <class T>
typename AttentionMap<T>::Block AttentionMap<T>::block(Index b) const {
  const Tile tile = tile_at(x_.rows / tokens_, std::max<Index>(1, kBlockRows / tokens_), b);
  return {tile.begin, tile.size};
}

template <class T>
void AttentionMap<T>::evaluate(MatrixView<const T> theta, MatrixView<T> p, MatrixView<T> phi) const {
  const Index k = tokens_, m = heads_, d = dim();
  parallel_for(threads_, block_count(), [&](Index b, int) {
    const Block here = block(b);
    Matrix<T> u(here.count * k, m * d);
    gemm(Trans::no, Trans::no, T(1), x_.block(here.first * k, 0, here.count * k, d), theta, T(0), u.view());
    for (Index e = 0; e < here.count; ++e) {
      const Index row = (here.first + e) * k;
      const MatrixView<const T> x = x_.block(row, 0, k, d);
      const MatrixView<T> logits = p.block(row * m, 0, k * m, k);
      gemm(Trans::no, Trans::no, T(1), MatrixView<const T>(u.data() + e * k * m * d, k * m, d),
           transposed(here.first + e), T(0), logits);
      for (Index r = 0; r < k * m; ++r) softmax_row(logits.row(r), k);
      gemm(Trans::no, Trans::no, T(1), MatrixView<const T>(logits), x, T(0),
           MatrixView<T>(phi.row(row), k * m, d));
    }
  });
}

template <class T>
void AttentionMap<T>::values(MatrixView<const T> w, MatrixView<T> vt) const {
  const Index k = tokens_, m = heads_, d = dim(), e = w.cols;
  Matrix<T> side(d, m * e);  // W_i side by side: one product for all heads
  for (Index i = 0; i < m; ++i)
    for (Index q = 0; q < d; ++q) std::copy_n(w.row(i * d + q), e, side.data() + q * m * e + i * e);
  parallel_for(threads_, block_count(), [&](Index b, int) {
    const Block here = block(b);
    Matrix<T> all(here.count * k, m * e);
    gemm(Trans::no, Trans::no, T(1), x_.block(here.first * k, 0, here.count * k, d),
         std::as_const(side).view(), T(0), all.view());
    for (Index example = 0; example < here.count; ++example)
      for (Index t = 0; t < k; ++t)
        for (Index i = 0; i < m; ++i)
          for (Index c = 0; c < e; ++c)
            vt((here.first + example) * e + c, i * k + t) = all(example * k + t, i * e + c);
  });
}

template <class T>
void AttentionMap<T>::derivative(MatrixView<const T> p, MatrixView<const T> v, MatrixView<const T> dtheta,
                                 MatrixView<T> df) const {
  const Index k = tokens_, m = heads_, d = dim(), e = v.cols;
  parallel_for(threads_, block_count(), [&](Index b, int) {
    const Block here = block(b);
    Matrix<T> u(here.count * k, m * d), t(k * m, k);
    gemm(Trans::no, Trans::no, T(1), x_.block(here.first * k, 0, here.count * k, d), dtheta, T(0), u.view());
    for (Index example = 0; example < here.count; ++example) {
      const Index row = (here.first + example) * k;
      gemm(Trans::no, Trans::no, T(1), MatrixView<const T>(u.data() + example * k * m * d, k * m, d),
           transposed(here.first + example), T(0), t.view());
      softmax_derivative<T>(p.block(row * m, 0, k * m, k), t);
      gemm(Trans::no, Trans::no, T(1), MatrixView<const T>(t.data(), k, m * k), v.block(row * m, 0, m * k, e),
           T(0), df.block(row, 0, k, e));
    }
  });
}

template <class T>
void AttentionMap<T>::adjoint(MatrixView<const T> p, MatrixView<const T> vt, MatrixView<const T> g,
                              MatrixView<T> dtheta) const {
  const Index k = tokens_, m = heads_, d = dim(), e = g.cols;
  std::vector<Matrix<T>> parts(static_cast<std::size_t>(block_count()));
  parallel_for(threads_, block_count(), [&](Index b, int) {
    const Block here = block(b);
    Matrix<T> u(here.count * k, m * d), t(k * m, k);
    for (Index example = 0; example < here.count; ++example) {
      const Index row = (here.first + example) * k;
      gemm(Trans::no, Trans::no, T(1), g.block(row, 0, k, e),
           vt.block((here.first + example) * e, 0, e, m * k), T(0), MatrixView<T>(t.data(), k, m * k));
      softmax_derivative<T>(p.block(row * m, 0, k * m, k), t);
      gemm(Trans::no, Trans::no, T(1), std::as_const(t).view(), x_.block(row, 0, k, d), T(0),
           MatrixView<T>(u.data() + example * k * m * d, k * m, d));
    }
    Matrix<T> part(d, m * d);
    gemm(Trans::yes, Trans::no, T(1), x_.block(here.first * k, 0, here.count * k, d), std::as_const(u).view(),
         T(0), part.view());
    parts[static_cast<std::size_t>(b)] = std::move(part);
  });
  for (Index i = 0; i < d; ++i) std::fill_n(dtheta.row(i), m * d, T(0));
  for (const Matrix<T>& part : parts)
    for (Index i = 0; i < d; ++i)
      for (Index j = 0; j < m * d; ++j) dtheta(i, j) += part(i, j);
}

// C W = sum_b p_b (x_b - mean) (x_b W)^T: only the left factor needs centring.
template <class T>
void AttentionMap<T>::slopes(MatrixView<const T> p, MatrixView<const T> phi, MatrixView<const T> vt,
                             Index row, MatrixView<T> out) const {
  const Index k = tokens(), m = heads(), d = dim(), e = out.cols, example = row / k;
  const MatrixView<const T> x = x_.block(example * k, 0, k, d);
  Matrix<T> centred(k, d), weighted(e, k);
  for (Index i = 0; i < m; ++i) {
    const T* attention = p.row(row * m + i);
    const T* mean = phi.row(row) + i * d;
    const MatrixView<const T> values = vt.block(example * e, i * k, e, k);
    for (Index t = 0; t < k; ++t)
      for (Index q = 0; q < d; ++q) centred(t, q) = x(t, q) - mean[q];
    for (Index c = 0; c < e; ++c)
      for (Index t = 0; t < k; ++t) weighted(c, t) = attention[t] * values(c, t);
    gemm(Trans::yes, Trans::yes, T(1), std::as_const(centred).view(), std::as_const(weighted).view(), T(0),
         out.block(i * d, 0, d, e));
  }
}

template <class T>
void untranspose_values(MatrixView<const double> vt, Index outputs, MatrixView<T> v) {
  for (Index example = 0; example < vt.rows / outputs; ++example)
    for (Index c = 0; c < outputs; ++c)
      for (Index b = 0; b < vt.cols; ++b)
        v(example * vt.cols + b, c) = static_cast<T>(vt(example * outputs + c, b));
}

template void untranspose_values<float>(MatrixView<const double>, Index, MatrixView<float>);
template void untranspose_values<double>(MatrixView<const double>, Index, MatrixView<double>);
template void softmax_derivative<float>(MatrixView<const float>, MatrixView<float>);
template void softmax_derivative<double>(MatrixView<const double>, MatrixView<double>);
template void softmax_row<float>(float*, Index);
template void softmax_row<double>(double*, Index);
template class AttentionMap<float>;
template class AttentionMap<double>;

}  // namespace headlens

#include "attention/variant_map.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "attention/attention_map.hpp"
#include "base/parallel.hpp"
#include "headlens/error.hpp"
#include "linalg/blas.hpp"
#include "linalg/multiply.hpp"
#include "linalg/tiles.hpp"

namespace headlens {
namespace {

constexpr Index kBlockRows = 256;  // rows whose images are worked on at once
constexpr Index kAppliedRows = 4096;

}  // namespace

template <class T>
VariantMap<T>::VariantMap(MatrixView<const T> x, Index tokens, VariantShape shape, std::vector<Index> lengths,
                          int threads)
    : x_(x), tokens_(tokens), shape_(std::move(shape)), lengths_(std::move(lengths)) {
  ensure(x.rows % tokens == 0 && x.cols == shape_.dim, "variant map: ", x.rows, " rows of ", tokens,
         " tokens");
  ensure(lengths_.empty() || static_cast<Index>(lengths_.size()) == x.rows / tokens,
         "variant map: one length per example");
  threads_ = threads_for(2.0 * static_cast<double>(x.rows * x.cols * shape_.columns()), threads);
  if (!shape_.rotary()) return;
  const Rotary& rotary = *shape_.variant.rotary;
  const Index pairs = rotary.pairs(shape_.rank);
  cosine_ = Matrix<T>(tokens, pairs);
  sine_ = Matrix<T>(tokens, pairs);
  for (Index a = 0; a < tokens; ++a)
    for (Index j = 0; j < pairs; ++j) {
      const double angle = static_cast<double>(a) * rotary.frequency(j, shape_.rank);
      cosine_(a, j) = static_cast<T>(std::cos(angle));
      sine_(a, j) = static_cast<T>(std::sin(angle));
    }
}

template <class T>
std::vector<typename VariantMap<T>::Block> VariantMap<T>::blocks() const {
  const Index examples = x_.rows / tokens_, step = std::max<Index>(1, kBlockRows / tokens_);
  std::vector<Block> out;
  for (Index at = 0; at < examples; at += step) out.push_back({at, std::min(step, examples - at)});
  return out;
}

template <class T>
template <class Work>
void VariantMap<T>::over_blocks(Work&& work) const {
  const std::vector<Block> all = blocks();
  parallel_for(threads_, static_cast<Index>(all.size()),
               [&](Index b, int) { work(all[static_cast<std::size_t>(b)], b); });
}

// Queries and keys of every head turn by the angles of their token.
template <class T>
void VariantMap<T>::turn(MatrixView<T> z, double sign) const {
  if (!shape_.rotary()) return;
  const Rotary& rotary = *shape_.variant.rotary;
  for (Index row = 0; row < z.rows; ++row)
    for (Index part = 0; part < 2 * shape_.heads; ++part)
      for (Index j = 0; j < cosine_.cols(); ++j) {
        const auto [first, second] = rotary.columns(j, shape_.rank);
        T &a = z(row, part * shape_.rank + first), &b = z(row, part * shape_.rank + second);
        const T c = cosine_(row % tokens_, j), s = static_cast<T>(sign) * sine_(row % tokens_, j);
        const T turned = a * c - b * s;
        b = a * s + b * c;
        a = turned;
      }
}

// z = [X, 1] parameters or X parameters, turned, for one block of examples.
template <class T>
void VariantMap<T>::images(MatrixView<const T> parameters, Block here, MatrixView<T> z) const {
  const Index d = shape_.dim;
  gemm(Trans::no, Trans::no, T(1), x_.block(here.first * tokens_, 0, z.rows, d),
       parameters.block(0, 0, d, parameters.cols), T(0), z);
  if (shape_.rows() > d)
    for (Index row = 0; row < z.rows; ++row)
      for (Index j = 0; j < z.cols; ++j) z(row, j) += parameters(d, j);
  turn(z, 1);
}

template <class T>
void VariantMap<T>::add_key_bias(MatrixView<const T> z, Index row, Index head, MatrixView<T> logits) const {
  if (!shape_.rotary() || !shape_.variant.bias) return;
  const Index column = 2 * shape_.heads * shape_.rank + head;
  for (Index a = 0; a < tokens_; ++a)
    for (Index b = 0; b < tokens_; ++b) logits(a, b) += z(row + b, column);
}

template <class T>
void VariantMap<T>::normalise(Index example, MatrixView<T> logits) const {
  const Index size = length(example);
  for (Index a = 0; a < tokens_; ++a) {
    const Index seen = a >= size ? 0 : shape_.variant.mask == Mask::causal ? a + 1 : size;
    if (seen > 0) softmax_row(logits.row(a), seen);
    std::fill(logits.row(a) + seen, logits.row(a) + tokens_, T(0));
  }
}

template <class T>
void VariantMap<T>::evaluate(MatrixView<const T> parameters, MatrixView<T> z, MatrixView<T> p,
                             MatrixView<T> phi) const {
  const Index k = tokens_, d = shape_.dim;
  over_blocks([&](Block here, Index) {
    images(parameters, here, z.block(here.first * k, 0, here.count * k, shape_.columns()));
    const MatrixView<const T> read = z;
    for (Index example = here.first; example < here.first + here.count; ++example) {
      const Index row = example * k;
      for (Index i = 0; i < shape_.heads; ++i) {
        const MatrixView<T> weights = p.block((example * shape_.heads + i) * k, 0, k, k);
        gemm(Trans::no, Trans::yes, T(1), left(read, row, i), right(read, row, row, i), T(0), weights);
        add_key_bias(read, row, i, weights);
        normalise(example, weights);
        gemm(Trans::no, Trans::no, T(1), MatrixView<const T>(weights), x_.block(row, 0, k, d), T(0),
             phi.block(row, i * d, k, d));
      }
      for (Index a = 0; a < k && shape_.variant.bias; ++a)
        phi(row + a, shape_.heads * d) = a < length(example) ? T(1) : T(0);
    }
  });
}

template <class T>
void VariantMap<T>::values(MatrixView<const T> w, MatrixView<T> v) const {
  const Index d = shape_.dim, e = w.cols;
  over_blocks([&](Block here, Index) {
    const Index row = here.first * tokens_, rows = here.count * tokens_;
    for (Index i = 0; i < shape_.heads; ++i)
      gemm(Trans::no, Trans::no, T(1), x_.block(row, 0, rows, d), w.block(i * d, 0, d, e), T(0),
           v.block(row, i * e, rows, e));
  });
}

template <class T>
void VariantMap<T>::derivative(MatrixView<const T> z, MatrixView<const T> p, MatrixView<const T> v,
                               MatrixView<const T> dparameters, MatrixView<T> df) const {
  const Index k = tokens_, e = df.cols;
  over_blocks([&](Block here, Index) {
    Matrix<T> moved(here.count * k, shape_.columns()), dl(k, k);
    images(dparameters, here, moved.view());
    const MatrixView<const T> dz = std::as_const(moved).view();
    for (Index n = 0; n < here.count; ++n) {
      const Index row = (here.first + n) * k;
      for (Index i = 0; i < shape_.heads; ++i) {
        gemm(Trans::no, Trans::yes, T(1), left(dz, n * k, i), right(z, row, row, i), T(0), dl.view());
        if (shape_.rotary())
          gemm(Trans::no, Trans::yes, T(1), left(z, row, i), right(dz, n * k, row, i), T(1), dl.view());
        add_key_bias(dz, n * k, i, dl.view());
        softmax_derivative<T>(attention(p, here.first + n, i), dl.view());
        gemm(Trans::no, Trans::no, T(1), std::as_const(dl).view(), v.block(row, i * e, k, e),
             i == 0 ? T(0) : T(1), df.block(row, 0, k, e));
      }
    }
  });
}

// back: what the logits' share c (k, k) of one head asks of the images of its tokens.
template <class T>
void VariantMap<T>::take_back(MatrixView<const T> z, Index example, Index head, MatrixView<const T> c,
                              Index row, MatrixView<T> back) const {
  const Index k = tokens_, width = shape_.head_columns(), first = example * k;
  gemm(Trans::no, Trans::no, T(1), c, right(z, first, first, head), T(0),
       back.block(row, head * width, k, width));
  if (!shape_.rotary()) return;
  gemm(Trans::yes, Trans::no, T(1), c, left(z, first, head), T(0),
       back.block(row, (shape_.heads + head) * width, k, width));
  if (!shape_.variant.bias) return;
  for (Index b = 0; b < k; ++b) {
    T sum = 0;
    for (Index a = 0; a < k; ++a) sum += c(a, b);
    back(row + b, 2 * shape_.heads * width + head) = sum;
  }
}

template <class T>
void VariantMap<T>::adjoint(MatrixView<const T> z, MatrixView<const T> p, MatrixView<const T> v,
                            MatrixView<const T> g, MatrixView<T> dparameters) const {
  const Index k = tokens_, d = shape_.dim, e = g.cols, columns = shape_.columns();
  std::vector<Matrix<T>> parts(blocks().size());
  over_blocks([&](Block here, Index b) {
    Matrix<T> back(here.count * k, columns), c(k, k);
    for (Index n = 0; n < here.count; ++n)
      for (Index i = 0; i < shape_.heads; ++i) {
        const Index row = (here.first + n) * k;
        gemm(Trans::no, Trans::yes, T(1), g.block(row, 0, k, e), v.block(row, i * e, k, e), T(0), c.view());
        softmax_derivative<T>(attention(p, here.first + n, i), c.view());
        take_back(z, here.first + n, i, std::as_const(c).view(), n * k, back.view());
      }
    turn(back.view(), -1);
    Matrix<T>& part = parts[static_cast<std::size_t>(b)] = Matrix<T>::zeros(shape_.rows(), columns);
    gemm(Trans::yes, Trans::no, T(1), x_.block(here.first * k, 0, here.count * k, d),
         std::as_const(back).view(), T(0), part.view().block(0, 0, d, columns));
    for (Index row = 0; row < back.rows() && shape_.rows() > d; ++row)
      for (Index j = 0; j < columns; ++j) part(d, j) += back(row, j);
  });
  for (Index i = 0; i < shape_.rows(); ++i) std::fill_n(dparameters.row(i), columns, T(0));
  for (const Matrix<T>& part : parts)
    for (Index i = 0; i < shape_.rows(); ++i)
      for (Index j = 0; j < columns; ++j) dparameters(i, j) += part(i, j);
}

Matrix<double> apply_variant(const VariantShape& shape, MatrixView<const double> parameters,
                             MatrixView<const double> readout, MatrixView<const double> x, Index tokens,
                             const std::vector<Index>& lengths, int threads) {
  Matrix<double> out(x.rows, readout.cols);
  const Index step = std::max<Index>(1, kAppliedRows / tokens);
  for (Index first = 0; first < x.rows / tokens; first += step) {
    heed();
    const Index count = std::min(step, x.rows / tokens - first), row = first * tokens;
    std::vector<Index> own;
    if (!lengths.empty()) own.assign(lengths.begin() + first, lengths.begin() + first + count);
    const VariantMap<double> map(x.block(row, 0, count * tokens, x.cols), tokens, shape, own, threads);
    Matrix<double> z = map.make_activations(), p = map.make_attention(), phi = map.make_phi();
    map.evaluate(parameters, z, p, phi);
    multiply(Trans::no, Trans::no, 1.0, std::as_const(phi).view(), readout, 0.0,
             out.view().block(row, 0, count * tokens, out.cols()), threads);
  }
  return out;
}

template class VariantMap<float>;
template class VariantMap<double>;

}  // namespace headlens

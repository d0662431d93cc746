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

template <class T>
VariantMap<T>::VariantMap(In x, Index tokens, VariantShape shape, std::vector<Index> lengths, int threads)
    : ExampleMap<T>(x, tokens, std::move(lengths), shape.map_shape(), threads), shape_(std::move(shape)) {
  ensure(x.cols == shape_.dim, "variant map: ", x.cols, " coordinates, expected ", shape_.dim);
}

// z = [X, 1] parameters or X parameters, turned, for one block of examples.
template <class T>
void VariantMap<T>::images(In parameters, Block here, Out z) const {
  const Index d = shape_.dim;
  gemm(Trans::no, Trans::no, T(1), this->x_.block(here.first * this->tokens_, 0, z.rows, d),
       parameters.block(0, 0, d, parameters.cols), T(0), z);
  if (shape_.rows() > d)
    for (Index row = 0; row < z.rows; ++row)
      for (Index j = 0; j < z.cols; ++j) z(row, j) += parameters(d, j);
  this->turn(z, 2 * shape_.heads, T(1));
}

template <class T>
void VariantMap<T>::add_key_bias(In z, Index row, Index head, Out logits) const {
  if (!shape_.rotary() || !shape_.variant.bias) return;
  const Index column = 2 * shape_.heads * shape_.rank + head;
  for (Index a = 0; a < this->tokens_; ++a)
    for (Index b = 0; b < this->tokens_; ++b) logits(a, b) += z(row + b, column);
}

template <class T>
void VariantMap<T>::evaluate(In parameters, Out z, Out p, Out phi) const {
  const Index k = this->tokens_, d = shape_.dim;
  const In read = z;
  const auto head = [&](Index example, Index i) {
    const Index row = example * k;
    const Out weights = this->attention(p, example, i);
    gemm(Trans::no, Trans::yes, T(1), left(read, row, i), right(read, row, row, i), T(0), weights);
    add_key_bias(read, row, i, weights);
    this->normalise(example, weights);
    gemm(Trans::no, Trans::no, T(1), In(weights), this->x_.block(row, 0, k, d), T(0),
         phi.block(row, i * d, k, d));
  };
  this->over_heads([&](Block here) { images(parameters, here, this->rows_of(z, here)); }, head);
  if (shape_.variant.bias) this->write_constant(phi);
}

template <class T>
void VariantMap<T>::values(In w, Out v) const {
  const Index d = shape_.dim, e = w.cols;
  this->over_blocks([&](Block here, Index, int) {
    const Index row = here.first * this->tokens_, rows = here.count * this->tokens_;
    for (Index i = 0; i < shape_.heads; ++i)
      gemm(Trans::no, Trans::no, T(1), this->x_.block(row, 0, rows, d), w.block(i * d, 0, d, e), T(0),
           v.block(row, i * e, rows, e));
  });
}

template <class T>
void VariantMap<T>::derivative(In z, In p, In v, In dparameters, Out df) const {
  const Index k = this->tokens_, e = df.cols;
  this->over_blocks([&](Block here, Index, int) {
    Matrix<T> moved(here.count * k, shape_.columns()), dl(k, k);
    images(dparameters, here, moved.view());
    const In dz = std::as_const(moved).view();
    for (Index n = 0; n < here.count; ++n) {
      const Index row = (here.first + n) * k;
      for (Index i = 0; i < shape_.heads; ++i) {
        gemm(Trans::no, Trans::yes, T(1), left(dz, n * k, i), right(z, row, row, i), T(0), dl.view());
        if (shape_.rotary())
          gemm(Trans::no, Trans::yes, T(1), left(z, row, i), right(dz, n * k, row, i), T(1), dl.view());
        add_key_bias(dz, n * k, i, dl.view());
        softmax_derivative<T>(this->attention(p, here.first + n, i), dl.view());
        gemm(Trans::no, Trans::no, T(1), std::as_const(dl).view(), v.block(row, i * e, k, e),
             i == 0 ? T(0) : T(1), df.block(row, 0, k, e));
      }
    }
  });
}

// back: what the logits' share c (k, k) of one head asks of the images of its tokens.
template <class T>
void VariantMap<T>::take_back(In z, Index example, Index head, In c, Index row, Out back) const {
  const Index k = this->tokens_, width = shape_.head_columns(), first = example * k;
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
void VariantMap<T>::adjoint(In z, In p, In v, In g, Out dparameters) const {
  const Index k = this->tokens_, d = shape_.dim, e = g.cols, columns = shape_.columns();
  const Index height = shape_.rows();
  auto parts = Matrix<T>::zeros(static_cast<Index>(this->blocks().size()) * height, columns);
  this->over_blocks([&](Block here, Index b, int) {
    Matrix<T> back(here.count * k, columns), c(k, k);
    for (Index n = 0; n < here.count; ++n)
      for (Index i = 0; i < shape_.heads; ++i) {
        const Index row = (here.first + n) * k;
        gemm(Trans::no, Trans::yes, T(1), g.block(row, 0, k, e), v.block(row, i * e, k, e), T(0), c.view());
        softmax_derivative<T>(this->attention(p, here.first + n, i), c.view());
        take_back(z, here.first + n, i, std::as_const(c).view(), n * k, back.view());
      }
    this->turn(back.view(), 2 * shape_.heads, T(-1));
    const Out part = parts.view().block(b * height, 0, height, columns);
    gemm(Trans::yes, Trans::no, T(1), this->x_.block(here.first * k, 0, here.count * k, d),
         std::as_const(back).view(), T(0), part.block(0, 0, d, columns));
    for (Index row = 0; row < back.rows() && shape_.rows() > d; ++row)
      for (Index j = 0; j < columns; ++j) part(d, j) += back(row, j);
  });
  this->add_in_order(parts, dparameters);
}

Matrix<double> apply_variant(const VariantShape& shape, MatrixView<const double> parameters,
                             MatrixView<const double> readout, MatrixView<const double> x, Index tokens,
                             const std::vector<Index>& lengths, int threads) {
  return apply_in_parts(x, tokens, lengths, readout, threads,
                        [&](MatrixView<const double> rows, const std::vector<Index>& own) {
                          const VariantMap<double> map(rows, tokens, shape, own, threads);
                          return features_of(map, parameters);
                        });
}

template class VariantMap<float>;
template class VariantMap<double>;

}  // namespace headlens

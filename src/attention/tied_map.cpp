#include "attention/tied_map.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "attention/attention_map.hpp"
#include "base/parallel.hpp"
#include "linalg/blas.hpp"
#include "linalg/multiply.hpp"
#include "linalg/tiles.hpp"
#include "linalg/vector_space.hpp"

namespace headlens {

double TiedShape::parameters() const {
  const double queries = static_cast<double>(heads * rank), keys = static_cast<double>(groups * rank),
               values = static_cast<double>(groups * value_rank), e = static_cast<double>(outputs);
  const double biases = bias ? queries + (rotary ? keys : 0) + e : 0;
  return static_cast<double>(dim()) * (queries + keys + values) +
         static_cast<double>(heads * value_rank) * e + biases;
}

TiedLayer copy_of(const TiedLayer& layer) {
  return {layer.shape, headlens::copy_of(layer.parameters), headlens::copy_of(layer.readout)};
}

template <class T>
TiedMap<T>::TiedMap(In x, Index tokens, const TiedShape& shape, const std::vector<Index>& lengths,
                    int threads)
    : ExampleMap<T>(x, tokens, lengths, shape.map_shape(), threads), shape_(shape) {}

template <class T>
void TiedMap<T>::images(In parameters, Block here, Out z) const {
  gemm(Trans::no, Trans::no, T(1), this->tokens_of(here), parameters, T(0), z);
  this->turn(z, shape_.heads + shape_.groups, T(1));
}

template <class T>
void TiedMap<T>::evaluate(In parameters, Out z, Out p, Out phi) const {
  const Index k = this->tokens_, r = shape_.rank, s = shape_.value_rank;
  const In read = z;
  const auto head = [&](Index example, Index i) {
    const Index row = example * k, g = shape_.group(i);
    const Out weights = this->attention(p, example, i);
    gemm(Trans::no, Trans::yes, T(1), read.block(row, shape_.q(i), k, r), read.block(row, shape_.k(g), k, r),
         T(0), weights);
    this->normalise(example, weights);
    gemm(Trans::no, Trans::no, T(1), In(weights), read.block(row, shape_.v(g), k, s), T(0),
         phi.block(row, i * s, k, s));
  };
  this->over_heads([&](Block here) { images(parameters, here, this->rows_of(z, here)); }, head);
  if (shape_.bias) this->write_constant(phi);
}

template <class T>
void TiedMap<T>::derivative(In z, In p, In dparameters, Out dphi) const {
  const Index k = this->tokens_, r = shape_.rank, s = shape_.value_rank;
  this->over_blocks([&](Block here, Index) {
    Matrix<T> moved(here.count * k, shape_.columns()), dl(k, k);
    images(dparameters, here, moved.view());
    const In dz = std::as_const(moved).view(), bent = std::as_const(dl).view();
    for (Index n = 0; n < here.count; ++n)
      for (Index i = 0; i < shape_.heads; ++i) {
        const Index row = (here.first + n) * k, own = n * k, g = shape_.group(i);
        const In weights = this->attention(p, here.first + n, i);
        const Out out = dphi.block(row, i * s, k, s);
        gemm(Trans::no, Trans::yes, T(1), dz.block(own, shape_.q(i), k, r), z.block(row, shape_.k(g), k, r),
             T(0), dl.view());
        gemm(Trans::no, Trans::yes, T(1), z.block(row, shape_.q(i), k, r), dz.block(own, shape_.k(g), k, r),
             T(1), dl.view());
        softmax_derivative<T>(weights, dl.view());
        gemm(Trans::no, Trans::no, T(1), bent, z.block(row, shape_.v(g), k, s), T(0), out);
        gemm(Trans::no, Trans::no, T(1), weights, dz.block(own, shape_.v(g), k, s), T(1), out);
      }
    for (Index row = here.first * k; row < (here.first + here.count) * k && shape_.bias; ++row)
      dphi(row, shape_.heads * s) = 0;
  });
}

// back (k, columns): what the shares g of one example ask of the images of its tokens.
template <class T>
void TiedMap<T>::take_back(In z, In p, In g, Index example, Out back) const {
  const Index k = this->tokens_, r = shape_.rank, s = shape_.value_rank, row = example * k;
  Matrix<T> c(k, k);
  const In bent = std::as_const(c).view();
  for (Index i = 0; i < shape_.heads; ++i) {
    const Index of = shape_.group(i);
    const T before = i % shape_.shared() == 0 ? T(0) : T(1);  // the first head of a group overwrites
    const In weights = this->attention(p, example, i), out = g.block(row, i * s, k, s);
    gemm(Trans::no, Trans::yes, T(1), out, z.block(row, shape_.v(of), k, s), T(0), c.view());
    softmax_derivative<T>(weights, c.view());
    gemm(Trans::no, Trans::no, T(1), bent, z.block(row, shape_.k(of), k, r), T(0),
         back.block(0, shape_.q(i), k, r));
    gemm(Trans::yes, Trans::no, T(1), bent, z.block(row, shape_.q(i), k, r), before,
         back.block(0, shape_.k(of), k, r));
    gemm(Trans::yes, Trans::no, T(1), weights, out, before, back.block(0, shape_.v(of), k, s));
  }
}

template <class T>
void TiedMap<T>::adjoint(In z, In p, In g, Out dparameters) const {
  const Index k = this->tokens_, columns = shape_.columns();
  std::vector<Matrix<T>> parts(this->blocks().size());
  this->over_blocks([&](Block here, Index b) {
    Matrix<T> back(here.count * k, columns);
    for (Index n = 0; n < here.count; ++n)
      take_back(z, p, g, here.first + n, back.view().block(n * k, 0, k, columns));
    this->turn(back.view(), shape_.heads + shape_.groups, T(-1));
    Matrix<T>& part = parts[static_cast<std::size_t>(b)] = Matrix<T>(this->x_.cols, columns);
    gemm(Trans::yes, Trans::no, T(1), this->tokens_of(here), std::as_const(back).view(), T(0), part.view());
  });
  this->add_in_order(parts, dparameters);
}

Matrix<double> apply_tied(const TiedLayer& layer, MatrixView<const double> x, Index tokens,
                          const std::vector<Index>& lengths, int threads) {
  return apply_in_parts(x, tokens, lengths, layer.readout.view(), threads,
                        [&](MatrixView<const double> rows, const std::vector<Index>& own) {
                          const TiedMap<double> map(rows, tokens, layer.shape, own, threads);
                          return features_of(map, layer.parameters.view());
                        });
}

template class TiedMap<float>;
template class TiedMap<double>;

}  // namespace headlens

#include "refit/tied_map.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "attention/attention_map.hpp"
#include "base/parallel.hpp"
#include "linalg/blas.hpp"
#include "linalg/multiply.hpp"
#include "linalg/tiles.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::refitting {
namespace {

constexpr Index kBlockRows = 256;  // rows whose images are worked on at once
constexpr Index kAppliedRows = 4096;

}  // namespace

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
TiedMap<T>::TiedMap(MatrixView<const T> x, Index tokens, const TiedShape& shape,
                    const std::vector<Index>& lengths, int threads)
    : x_(x),
      tokens_(tokens),
      shape_(shape),
      lengths_(lengths),
      threads_(threads_for(2.0 * static_cast<double>(x.rows * x.cols * shape.columns()), threads)) {
  if (!shape.rotary) return;
  const Index pairs = shape.rotary->pairs(shape.rank);
  cosine_ = Matrix<T>(tokens, pairs);
  sine_ = Matrix<T>(tokens, pairs);
  for (Index a = 0; a < tokens; ++a)
    for (Index j = 0; j < pairs; ++j) {
      const double angle = static_cast<double>(a) * shape.rotary->frequency(j, shape.rank);
      cosine_(a, j) = static_cast<T>(std::cos(angle));
      sine_(a, j) = static_cast<T>(std::sin(angle));
    }
}

template <class T>
Index TiedMap<T>::block_count() const {
  return tile_count(x_.rows / tokens_, std::max<Index>(1, kBlockRows / tokens_));
}

template <class T>
template <class Work>
void TiedMap<T>::over_blocks(Work&& work) const {
  const Index step = std::max<Index>(1, kBlockRows / tokens_);
  parallel_for(threads_, block_count(), [&](Index b, int) {
    const Tile tile = tile_at(x_.rows / tokens_, step, b);
    work(Block{tile.begin, tile.size}, b);
  });
}

template <class T>
void TiedMap<T>::turn(MatrixView<T> z, T sign) const {
  if (!shape_.rotary) return;
  for (Index row = 0; row < z.rows; ++row)
    for (Index part = 0; part < shape_.heads + shape_.groups; ++part)
      for (Index j = 0; j < cosine_.cols(); ++j) {
        const auto [first, second] = shape_.rotary->columns(j, shape_.rank);
        T &a = z(row, part * shape_.rank + first), &b = z(row, part * shape_.rank + second);
        const T c = cosine_(row % tokens_, j), s = sign * sine_(row % tokens_, j), turned = a * c - b * s;
        b = a * s + b * c;
        a = turned;
      }
}

template <class T>
void TiedMap<T>::images(MatrixView<const T> parameters, Block here, MatrixView<T> z) const {
  gemm(Trans::no, Trans::no, T(1), x_.block(here.first * tokens_, 0, z.rows, x_.cols), parameters, T(0), z);
  turn(z, T(1));
}

template <class T>
void TiedMap<T>::normalise(Index example, MatrixView<T> logits) const {
  const Index size = length(example);
  for (Index a = 0; a < tokens_; ++a) {
    const Index seen = a >= size ? 0 : shape_.mask == Mask::causal ? a + 1 : size;
    if (seen > 0) softmax_row(logits.row(a), seen);
    std::fill(logits.row(a) + seen, logits.row(a) + tokens_, T(0));
  }
}

template <class T>
void TiedMap<T>::evaluate(MatrixView<const T> parameters, MatrixView<T> z, MatrixView<T> p,
                          MatrixView<T> phi) const {
  const Index k = tokens_, r = shape_.rank, s = shape_.value_rank;
  over_blocks([&](Block here, Index) {
    images(parameters, here, z.block(here.first * k, 0, here.count * k, shape_.columns()));
    const MatrixView<const T> read = z;
    for (Index example = here.first; example < here.first + here.count; ++example) {
      const Index row = example * k;
      for (Index i = 0; i < shape_.heads; ++i) {
        const Index g = shape_.group(i);
        const MatrixView<T> weights = attention(p, example, i);
        gemm(Trans::no, Trans::yes, T(1), read.block(row, shape_.q(i), k, r),
             read.block(row, shape_.k(g), k, r), T(0), weights);
        normalise(example, weights);
        gemm(Trans::no, Trans::no, T(1), MatrixView<const T>(weights), read.block(row, shape_.v(g), k, s),
             T(0), phi.block(row, i * s, k, s));
      }
      for (Index a = 0; a < k && shape_.bias; ++a)
        phi(row + a, shape_.heads * s) = a < length(example) ? T(1) : T(0);
    }
  });
}

template <class T>
void TiedMap<T>::derivative(MatrixView<const T> z, MatrixView<const T> p, MatrixView<const T> dparameters,
                            MatrixView<T> dphi) const {
  const Index k = tokens_, r = shape_.rank, s = shape_.value_rank;
  over_blocks([&](Block here, Index) {
    Matrix<T> moved(here.count * k, shape_.columns()), dl(k, k);
    images(dparameters, here, moved.view());
    const MatrixView<const T> dz = std::as_const(moved).view(), bent = std::as_const(dl).view();
    for (Index n = 0; n < here.count; ++n)
      for (Index i = 0; i < shape_.heads; ++i) {
        const Index row = (here.first + n) * k, own = n * k, g = shape_.group(i);
        const MatrixView<const T> weights = attention(p, here.first + n, i);
        const MatrixView<T> out = dphi.block(row, i * s, k, s);
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
void TiedMap<T>::take_back(MatrixView<const T> z, MatrixView<const T> p, MatrixView<const T> g, Index example,
                           MatrixView<T> back) const {
  const Index k = tokens_, r = shape_.rank, s = shape_.value_rank, row = example * k;
  Matrix<T> c(k, k);
  const MatrixView<const T> bent = std::as_const(c).view();
  for (Index i = 0; i < shape_.heads; ++i) {
    const Index of = shape_.group(i);
    const T before = i % shape_.shared() == 0 ? T(0) : T(1);  // the first head of a group overwrites
    const MatrixView<const T> weights = attention(p, example, i), out = g.block(row, i * s, k, s);
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
void TiedMap<T>::adjoint(MatrixView<const T> z, MatrixView<const T> p, MatrixView<const T> g,
                         MatrixView<T> dparameters) const {
  const Index k = tokens_, columns = shape_.columns();
  std::vector<Matrix<T>> parts(static_cast<std::size_t>(block_count()));
  over_blocks([&](Block here, Index b) {
    Matrix<T> back(here.count * k, columns);
    for (Index n = 0; n < here.count; ++n)
      take_back(z, p, g, here.first + n, back.view().block(n * k, 0, k, columns));
    turn(back.view(), T(-1));
    Matrix<T>& part = parts[static_cast<std::size_t>(b)] = Matrix<T>(x_.cols, columns);
    gemm(Trans::yes, Trans::no, T(1), x_.block(here.first * k, 0, here.count * k, x_.cols),
         std::as_const(back).view(), T(0), part.view());
  });
  copy_rows(std::as_const(parts[0]).view(), dparameters);
  for (std::size_t b = 1; b < parts.size(); ++b)
    for (Index i = 0; i < x_.cols; ++i)
      for (Index j = 0; j < columns; ++j) dparameters(i, j) += parts[b](i, j);
}

Matrix<double> apply(const TiedLayer& layer, MatrixView<const double> x, Index tokens,
                     const std::vector<Index>& lengths, int threads) {
  Matrix<double> out(x.rows, layer.readout.cols());
  const Index step = std::max<Index>(1, kAppliedRows / tokens);
  for (Index first = 0; first < x.rows / tokens; first += step) {
    heed();
    const Index count = std::min(step, x.rows / tokens - first), row = first * tokens;
    std::vector<Index> own;
    if (!lengths.empty()) own.assign(lengths.begin() + first, lengths.begin() + first + count);
    const TiedMap<double> map(x.block(row, 0, count * tokens, x.cols), tokens, layer.shape, own, threads);
    Matrix<double> z = map.make_activations(), p = map.make_attention(), phi = map.make_phi();
    map.evaluate(layer.parameters, z, p, phi);
    multiply(Trans::no, Trans::no, 1.0, std::as_const(phi).view(), layer.readout.view(), 0.0,
             out.view().block(row, 0, count * tokens, out.cols()), threads);
  }
  return out;
}

template class TiedMap<float>;
template class TiedMap<double>;

}  // namespace headlens::refitting

#include "cpu/layer/factor_map.hpp"

#include <algorithm>
#include <utility>

#include "attention/attention_map.hpp"
#include "base/parallel.hpp"
#include "headlens/error.hpp"
#include "linalg/blas.hpp"
#include "linalg/multiply.hpp"
#include "linalg/tiles.hpp"

namespace headlens::cpu {
namespace {

constexpr Index kBlockRows = 256;  // rows whose activations are worked on at once
constexpr Index kAppliedRows = 4096;
constexpr Index kGroups = 16;  // sums over examples are taken in so many parts

using backend::HeadColumns;

template <class T>
MatrixView<T> columns(MatrixView<T> z, Index row, Index tokens, Index first, Index count) {
  return z.block(row, first, tokens, count);
}

}  // namespace

template <class T>
FactorMap<T>::FactorMap(MatrixView<const T> x, Index tokens, const backend::HeadRanks& ranks, int threads)
    : x_(x),
      tokens_(tokens),
      ranks_(ranks),
      columns_(backend::columns_of(ranks)),
      parameter_columns_(ranks.parameter_columns()),
      value_columns_(ranks.value_columns()),
      threads_(threads_for(2.0 * static_cast<double>(x.rows * x.cols * parameter_columns_), threads)) {
  ensure(x.rows % tokens == 0, "factor map: ", x.rows, " rows of ", tokens, " tokens");
}

template <class T>
std::vector<typename FactorMap<T>::Block> FactorMap<T>::blocks_of(Index first, Index count) const {
  const Index step = std::max<Index>(1, kBlockRows / tokens_);
  std::vector<Block> out;
  for (Index at = 0; at < count; at += step) out.push_back({first + at, std::min(step, count - at)});
  return out;
}

// Over the tokens that are seen; the others have no weight, and the derivative of the softmax leaves it so.
template <class T>
void FactorMap<T>::normalise(MatrixView<T> logits) const {
  for (Index a = 0; a < tokens_; ++a) {
    const Index seen = ranks_.causal ? a + 1 : tokens_;
    softmax_row(logits.row(a), seen);
    std::fill(logits.row(a) + seen, logits.row(a) + tokens_, T(0));
  }
}

// work(block) for blocks of examples, which write rows of their own.
template <class T>
template <class Work>
void FactorMap<T>::over_examples(Work&& work) const {
  const std::vector<Block> blocks = blocks_of(0, x_.rows / tokens_);
  parallel_for(threads_, static_cast<Index>(blocks.size()),
               [&](Index b, int) { work(blocks[static_cast<std::size_t>(b)]); });
}

template <class T>
void FactorMap<T>::evaluate(MatrixView<const T> parameters, MatrixView<T> z, MatrixView<T> p,
                            MatrixView<T> phi) const {
  const Index k = tokens_;
  over_examples([&](Block here) {
    const Index row = here.first * k, rows = here.count * k;
    gemm(Trans::no, Trans::no, T(1), x_.block(row, 0, rows, x_.cols), parameters, T(0),
         z.block(row, 0, rows, parameter_columns_));
    const MatrixView<const T> read = z;
    for (Index example = here.first; example < here.first + here.count; ++example)
      for (Index i = 0; i < heads(); ++i) {
        const HeadColumns& c = columns_[static_cast<std::size_t>(i)];
        const MatrixView<T> weights = attention(p, example, i);
        gemm(Trans::no, Trans::yes, T(1), columns(read, example * k, k, c.q, c.logits),
             columns(read, example * k, k, c.k, c.logits), T(0), weights);
        normalise(weights);
        gemm(Trans::no, Trans::no, T(1), MatrixView<const T>(weights),
             columns(read, example * k, k, c.v, c.values), T(0), columns(phi, example * k, k, c.o, c.values));
      }
  });
}

template <class T>
void FactorMap<T>::derivative(MatrixView<const T> z, MatrixView<const T> p, MatrixView<const T> dparameters,
                              MatrixView<T> dphi) const {
  const Index k = tokens_;
  over_examples([&](Block here) {
    const Index rows = here.count * k;
    Matrix<T> moved(rows, parameter_columns_), dp(k, k);
    gemm(Trans::no, Trans::no, T(1), x_.block(here.first * k, 0, rows, x_.cols), dparameters, T(0),
         moved.view());
    const MatrixView<const T> dz = std::as_const(moved).view();
    for (Index e = 0; e < here.count; ++e)
      for (Index i = 0; i < heads(); ++i) {
        const HeadColumns& c = columns_[static_cast<std::size_t>(i)];
        const Index row = (here.first + e) * k;
        const MatrixView<const T> weights = attention(p, here.first + e, i);
        gemm(Trans::no, Trans::yes, T(1), columns(dz, e * k, k, c.q, c.logits),
             columns(z, row, k, c.k, c.logits), T(0), dp.view());
        gemm(Trans::no, Trans::yes, T(1), columns(z, row, k, c.q, c.logits),
             columns(dz, e * k, k, c.k, c.logits), T(1), dp.view());
        softmax_derivative<T>(weights, dp.view());
        const MatrixView<T> out = columns(dphi, row, k, c.o, c.values);
        gemm(Trans::no, Trans::no, T(1), std::as_const(dp).view(), columns(z, row, k, c.v, c.values), T(0),
             out);
        gemm(Trans::no, Trans::no, T(1), weights, columns(dz, e * k, k, c.v, c.values), T(1), out);
      }
  });
}

template <class T>
void FactorMap<T>::adjoint(MatrixView<const T> z, MatrixView<const T> p, MatrixView<const T> g,
                           MatrixView<T> dparameters) const {
  const Index k = tokens_, examples = x_.rows / k, width = tile_count(examples, kGroups);
  std::vector<Matrix<T>> parts(static_cast<std::size_t>(tile_count(examples, width)));
  parallel_for(threads_, static_cast<Index>(parts.size()), [&](Index group, int) {
    const Tile tile = tile_at(examples, width, group);
    Matrix<T>& part = parts[static_cast<std::size_t>(group)] = Matrix<T>(x_.cols, parameter_columns_);
    Matrix<T> back, c(k, k);
    for (const Block& here : blocks_of(tile.begin, tile.size)) {
      if (back.rows() != here.count * k) back = Matrix<T>(here.count * k, parameter_columns_);
      for (Index e = 0; e < here.count; ++e)
        for (Index i = 0; i < heads(); ++i) {
          const HeadColumns& at = columns_[static_cast<std::size_t>(i)];
          const Index row = (here.first + e) * k;
          const MatrixView<const T> weights = attention(p, here.first + e, i),
                                    out = columns(g, row, k, at.o, at.values);
          gemm(Trans::no, Trans::yes, T(1), out, columns(z, row, k, at.v, at.values), T(0), c.view());
          softmax_derivative<T>(weights, c.view());
          const MatrixView<const T> bent = std::as_const(c).view();
          gemm(Trans::no, Trans::no, T(1), bent, columns(z, row, k, at.k, at.logits), T(0),
               columns(back.view(), e * k, k, at.q, at.logits));
          gemm(Trans::yes, Trans::no, T(1), bent, columns(z, row, k, at.q, at.logits), T(0),
               columns(back.view(), e * k, k, at.k, at.logits));
          gemm(Trans::yes, Trans::no, T(1), weights, out, T(0),
               columns(back.view(), e * k, k, at.v, at.values));
        }
      gemm(Trans::yes, Trans::no, T(1), x_.block(here.first * k, 0, here.count * k, x_.cols),
           std::as_const(back).view(), here.first == tile.begin ? T(0) : T(1), part.view());
    }
  });
  for (Index i = 0; i < x_.cols; ++i)
    std::copy_n(parts[0].view().row(i), parameter_columns_, dparameters.row(i));
  for (std::size_t part = 1; part < parts.size(); ++part)
    for (Index i = 0; i < x_.cols; ++i)
      for (Index j = 0; j < parameter_columns_; ++j) dparameters(i, j) += parts[part](i, j);
  backend::pin(ranks_, dparameters);
}

Matrix<double> apply_factors(MatrixView<const double> x, Index tokens, const backend::HeadRanks& ranks,
                             const backend::FactorValues& values, int threads) {
  Matrix<double> out(x.rows, values.o.cols());
  const Index step = std::max<Index>(1, kAppliedRows / tokens) * tokens;
  for (Index row = 0; row < x.rows; row += step) {
    const Index rows = std::min(step, x.rows - row);
    const FactorMap<double> map(x.block(row, 0, rows, x.cols), tokens, ranks, threads);
    Matrix<double> z = map.make_activations(), p = map.make_attention(), phi = map.make_phi();
    map.evaluate(values.parameters, z, p, phi);
    multiply(Trans::no, Trans::no, 1.0, std::as_const(phi).view(), values.o.view(), 0.0,
             out.view().block(row, 0, rows, out.cols()), threads);
  }
  return out;
}

template class FactorMap<float>;
template class FactorMap<double>;

}  // namespace headlens::cpu

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

constexpr Index kGroups = 16;  // sums over examples are taken in so many parts

using backend::HeadColumns;

template <class T>
MatrixView<T> columns(MatrixView<T> z, Index row, Index tokens, Index first, Index count) {
  return z.block(row, first, tokens, count);
}

}  // namespace

template <class T>
FactorMap<T>::FactorMap(In x, Index tokens, const backend::HeadRanks& ranks,
                        const std::vector<Index>& lengths, int threads)
    : ExampleMap<T>(x, tokens, lengths,
                    {ranks.heads(), ranks.parameter_columns(), ranks.value_columns(),
                     ranks.causal ? Mask::causal : Mask::none, ranks.rotary, ranks.turned_rank()},
                    threads),
      ranks_(ranks),
      columns_(backend::columns_of(ranks)) {}

// Queries and keys of all heads lie side by side, each of as many columns.
template <class T>
void FactorMap<T>::turn_parts(Out z, T sign) const {
  if (!ranks_.rotary || ranks_.turned_rank() == 0) return;
  this->turn(z, (ranks_.logit_columns() + ranks_.key_columns()) / ranks_.turned_rank(), sign);
}

template <class T>
void FactorMap<T>::images(In parameters, Block here, Out z) const {
  gemm(Trans::no, Trans::no, T(1), this->tokens_of(here), parameters, T(0), z);
  turn_parts(z, T(1));
}

template <class T>
void FactorMap<T>::evaluate(In parameters, Out z, Out p, Out phi) const {
  const Index k = this->tokens_;
  const In read = z;
  this->over_heads([&](Block here) { images(parameters, here, this->rows_of(z, here)); },
                   [&](Index example, Index i) {
                     const HeadColumns& c = columns_[static_cast<std::size_t>(i)];
                     const Out weights = this->attention(p, example, i);
                     gemm(Trans::no, Trans::yes, T(1), columns(read, example * k, k, c.q, c.logits),
                          columns(read, example * k, k, c.k, c.logits), T(0), weights);
                     this->normalise(example, weights);
                     gemm(Trans::no, Trans::no, T(1), In(weights),
                          columns(read, example * k, k, c.v, c.values), T(0),
                          columns(phi, example * k, k, c.o, c.values));
                   });
}

template <class T>
void FactorMap<T>::derivative(In z, In p, In dparameters, Out dphi) const {
  const Index k = this->tokens_;
  this->over_blocks([&](Block here, Index) {
    Matrix<T> moved(here.count * k, this->columns()), dp(k, k);
    images(dparameters, here, moved.view());
    const In dz = std::as_const(moved).view();
    for (Index e = 0; e < here.count; ++e)
      for (Index i = 0; i < this->heads(); ++i) {
        const HeadColumns& c = columns_[static_cast<std::size_t>(i)];
        const Index row = (here.first + e) * k;
        const In weights = this->attention(p, here.first + e, i);
        gemm(Trans::no, Trans::yes, T(1), columns(dz, e * k, k, c.q, c.logits),
             columns(z, row, k, c.k, c.logits), T(0), dp.view());
        gemm(Trans::no, Trans::yes, T(1), columns(z, row, k, c.q, c.logits),
             columns(dz, e * k, k, c.k, c.logits), T(1), dp.view());
        softmax_derivative<T>(weights, dp.view());
        const Out out = columns(dphi, row, k, c.o, c.values);
        gemm(Trans::no, Trans::no, T(1), std::as_const(dp).view(), columns(z, row, k, c.v, c.values), T(0),
             out);
        gemm(Trans::no, Trans::no, T(1), weights, columns(dz, e * k, k, c.v, c.values), T(1), out);
      }
  });
}

// back (k, columns): what the shares g of one example ask of the images of its tokens.
template <class T>
void FactorMap<T>::take_back(In z, In p, In g, Index example, Out back) const {
  const Index k = this->tokens_, row = example * k;
  Matrix<T> c(k, k);
  const In bent = std::as_const(c).view();
  for (Index i = 0; i < this->heads(); ++i) {
    const HeadColumns& at = columns_[static_cast<std::size_t>(i)];
    const T before = ranks_.leads(i) ? T(0) : T(1);  // the first head of a group overwrites
    const In weights = this->attention(p, example, i), out = columns(g, row, k, at.o, at.values);
    gemm(Trans::no, Trans::yes, T(1), out, columns(z, row, k, at.v, at.values), T(0), c.view());
    softmax_derivative<T>(weights, c.view());
    gemm(Trans::no, Trans::no, T(1), bent, columns(z, row, k, at.k, at.logits), T(0),
         columns(back, 0, k, at.q, at.logits));
    gemm(Trans::yes, Trans::no, T(1), bent, columns(z, row, k, at.q, at.logits), before,
         columns(back, 0, k, at.k, at.logits));
    gemm(Trans::yes, Trans::no, T(1), weights, out, before, columns(back, 0, k, at.v, at.values));
  }
}

template <class T>
void FactorMap<T>::adjoint(In z, In p, In g, Out dparameters) const {
  const Index k = this->tokens_, examples = this->x_.rows / k, width = tile_count(examples, kGroups);
  std::vector<Matrix<T>> parts(static_cast<std::size_t>(tile_count(examples, width)));
  parallel_for(this->threads_, static_cast<Index>(parts.size()), [&](Index group, int) {
    const Tile tile = tile_at(examples, width, group);
    Matrix<T>& part = parts[static_cast<std::size_t>(group)] = Matrix<T>(this->x_.cols, this->columns());
    Matrix<T> back;
    for (const Block& here : this->blocks(tile.begin, tile.size)) {
      if (back.rows() != here.count * k) back = Matrix<T>(here.count * k, this->columns());
      for (Index e = 0; e < here.count; ++e)
        take_back(z, p, g, here.first + e, back.view().block(e * k, 0, k, this->columns()));
      turn_parts(back.view(), T(-1));
      gemm(Trans::yes, Trans::no, T(1), this->tokens_of(here), std::as_const(back).view(),
           here.first == tile.begin ? T(0) : T(1), part.view());
    }
  });
  this->add_in_order(parts, dparameters);
  backend::pin(ranks_, dparameters);
}

Matrix<double> apply_factors(const backend::LayerExamples& examples, const backend::HeadRanks& ranks,
                             const backend::FactorValues& values, int threads) {
  return apply_in_parts(examples.x, examples.tokens, examples.lengths, values.o.view(), threads,
                        [&](MatrixView<const double> rows, const std::vector<Index>& lengths) {
                          const FactorMap<double> map(rows, examples.tokens, ranks, lengths, threads);
                          return features_of(map, values.parameters.view());
                        });
}

template class FactorMap<float>;
template class FactorMap<double>;

}  // namespace headlens::cpu

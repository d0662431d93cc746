#include "attention/factored_head_map.hpp"

#include <utility>

#include "attention/attention_map.hpp"
#include "base/parallel.hpp"
#include "linalg/blas.hpp"
#include "linalg/tiles.hpp"

namespace headlens {
namespace {

constexpr Index kGroups = 16;  // sums over examples are taken in so many parts

template <class T>
MatrixView<T> columns(MatrixView<T> z, Index row, Index tokens, Index first, Index count) {
  return z.block(row, first, tokens, count);
}

}  // namespace

template <class T>
FactoredHeadMap<T>::FactoredHeadMap(In x, Index tokens, FactoredHeadShape shape,
                                    const std::vector<Index>& lengths, int threads)
    : ExampleMap<T>(x, tokens, lengths, shape.common, threads), shape_(std::move(shape)) {}

// Whether a head is the first of those that share its keys and values.
template <class T>
bool FactoredHeadMap<T>::leads(Index head) const {
  if (head == 0) return true;
  const HeadColumns& own = shape_.heads[static_cast<std::size_t>(head)];
  const HeadColumns& before = shape_.heads[static_cast<std::size_t>(head) - 1];
  return own.k != before.k || own.v != before.v;
}

template <class T>
void FactoredHeadMap<T>::images(In parameters, Block here, Out z) const {
  gemm(Trans::no, Trans::no, T(1), this->tokens_of(here), parameters, T(0), z);
  this->turn(z, shape_.turned, T(1));
}

template <class T>
void FactoredHeadMap<T>::evaluate(In parameters, Out z, Out p, Out phi) const {
  const Index k = this->tokens_;
  const In read = z;
  const auto head = [&](Index example, Index i) {
    const HeadColumns& c = shape_.heads[static_cast<std::size_t>(i)];
    const Index row = example * k;
    const Out weights = this->attention(p, example, i);
    gemm(Trans::no, Trans::yes, T(1), columns(read, row, k, c.q, c.logits),
         columns(read, row, k, c.k, c.logits), T(0), weights);
    this->normalise(example, weights);
    gemm(Trans::no, Trans::no, T(1), In(weights), columns(read, row, k, c.v, c.values), T(0),
         columns(phi, row, k, c.o, c.values));
  };
  this->over_heads([&](Block here) { images(parameters, here, this->rows_of(z, here)); }, head);
  if (shape_.constant) this->write_constant(phi);
}

// dl (k, k) is room to work in; dz the rows of the example alone.
template <class T>
void FactoredHeadMap<T>::derivative_of(Index example, Index head, In z, In dz, In p, Out dl, Out dphi) const {
  const HeadColumns& c = shape_.heads[static_cast<std::size_t>(head)];
  const Index k = this->tokens_, row = example * k;
  const In weights = this->attention(p, example, head);
  gemm(Trans::no, Trans::yes, T(1), columns(dz, 0, k, c.q, c.logits), columns(z, row, k, c.k, c.logits), T(0),
       dl);
  gemm(Trans::no, Trans::yes, T(1), columns(z, row, k, c.q, c.logits), columns(dz, 0, k, c.k, c.logits), T(1),
       dl);
  softmax_derivative<T>(weights, dl);
  const Out out = columns(dphi, row, k, c.o, c.values);
  gemm(Trans::no, Trans::no, T(1), In(dl), columns(z, row, k, c.v, c.values), T(0), out);
  gemm(Trans::no, Trans::no, T(1), weights, columns(dz, 0, k, c.v, c.values), T(1), out);
}

template <class T>
void FactoredHeadMap<T>::derivative(In z, In p, In dparameters, Out dphi) const {
  const Index k = this->tokens_;
  this->over_blocks([&](Block here, Index) {
    Matrix<T> moved(here.count * k, this->columns()), dl(k, k);
    images(dparameters, here, moved.view());
    const In dz = std::as_const(moved).view();
    for (Index e = 0; e < here.count; ++e)
      for (Index i = 0; i < this->heads(); ++i)
        derivative_of(here.first + e, i, z, dz.block(e * k, 0, k, dz.cols), p, dl.view(), dphi);
    for (Index row = here.first * k; row < (here.first + here.count) * k && shape_.constant; ++row)
      dphi(row, dphi.cols - 1) = 0;
  });
}

// back (k, columns): what the shares g of one example ask of the images of its tokens.
template <class T>
void FactoredHeadMap<T>::take_back(In z, In p, In g, Index example, Out back) const {
  const Index k = this->tokens_, row = example * k;
  Matrix<T> c(k, k);
  const In bent = std::as_const(c).view();
  for (Index i = 0; i < this->heads(); ++i) {
    const HeadColumns& at = shape_.heads[static_cast<std::size_t>(i)];
    const T before = leads(i) ? T(0) : T(1);  // the first head of a group overwrites
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
void FactoredHeadMap<T>::adjoint(In z, In p, In g, Out dparameters) const {
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
      this->turn(back.view(), shape_.turned, T(-1));
      gemm(Trans::yes, Trans::no, T(1), this->tokens_of(here), std::as_const(back).view(),
           here.first == tile.begin ? T(0) : T(1), part.view());
    }
  });
  this->add_in_order(parts, dparameters);
}

template class FactoredHeadMap<float>;
template class FactoredHeadMap<double>;

}  // namespace headlens

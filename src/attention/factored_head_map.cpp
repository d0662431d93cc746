#include "attention/factored_head_map.hpp"

#include <algorithm>
#include <utility>

#include "base/parallel.hpp"
#include "linalg/blas.hpp"
#include "linalg/multiply.hpp"
#include "linalg/tiles.hpp"
#include "linalg/vector_space.hpp"

namespace headlens {
namespace {

constexpr Index kGroups = 16;       // sums over few coordinates are taken in so many parts
constexpr Index kPanelRows = 2048;  // rows whose images are kept at a time, for sums over many
constexpr Index kBackRows = 64;     // of a block of them

}  // namespace

template <class T>
FactoredHeadMap<T>::FactoredHeadMap(In x, Index tokens, FactoredHeadShape shape,
                                    const std::vector<Index>& lengths, int threads)
    : ExampleMap<T>(x, tokens, lengths, shape.common, threads), shape_(std::move(shape)) {
  Index columns = 0;
  for (const HeadColumns& head : shape_.heads) columns = std::max({columns, head.logits, head.values});
  room_ = one_.room(tokens, columns);
}

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
template <class U>
HeadImages<U> FactoredHeadMap<T>::of_head(MatrixView<U> z, Index example, Index head) const {
  const HeadColumns& c = shape_.heads[static_cast<std::size_t>(head)];
  const MatrixView<U> rows = z.block(example * this->tokens_, 0, this->tokens_, z.cols);
  return {rows.block(0, c.q, rows.rows, c.logits), rows.block(0, c.k, rows.rows, c.logits),
          rows.block(0, c.v, rows.rows, c.values)};
}
template <class T>
template <class U>
MatrixView<U> FactoredHeadMap<T>::share_of(MatrixView<U> phi, Index example, Index head) const {
  const HeadColumns& c = shape_.heads[static_cast<std::size_t>(head)];
  return phi.block(example * this->tokens_, c.o, this->tokens_, c.values);
}

template <class T>
void FactoredHeadMap<T>::evaluate(Block here, In parameters, Out z, Out p, Out phi) const {
  images(parameters, here, z);
  Buffer<T> work(room_);
  for (Index e = 0; e < here.count; ++e)
    for (Index i = 0; i < this->heads(); ++i)
      one_.attend(this->sight(here.first + e), of_head(In(z), e, i), this->attention(p, e, i),
                  share_of(phi, e, i), work.data());
  if (shape_.constant) this->write_constant(here.first, phi);
}

template <class T>
void FactoredHeadMap<T>::evaluate(In parameters, Out z, Out p, Out phi) const {
  this->over_blocks([&](Block here, Index, int) {
    evaluate(here, parameters, this->rows_of(z, here), this->attention_of(p, here), this->rows_of(phi, here));
  });
}

template <class T>
void FactoredHeadMap<T>::derivative(In z, In p, In dparameters, Out dphi) const {
  this->over_blocks([&](Block here, Index, int) {
    Matrix<T> moved(here.count * this->tokens_, this->columns());
    images(dparameters, here, moved.view());
    const In dz = std::as_const(moved).view();
    Buffer<T> work(room_);
    for (Index e = 0; e < here.count; ++e)
      for (Index i = 0; i < this->heads(); ++i) {
        const Index example = here.first + e;
        one_.derivative(this->sight(example), of_head(z, example, i), of_head(dz, e, i),
                        this->attention(p, example, i), share_of(dphi, example, i), work.data());
      }
    const Out rows = this->rows_of(dphi, here);
    for (Index row = 0; row < rows.rows && shape_.constant; ++row) rows(row, rows.cols - 1) = 0;
  });
}

template <class T>
void FactoredHeadMap<T>::take_back(Block here, In z, In p, In g, Out back) const {
  Buffer<T> work(room_);
  for (Index e = 0; e < here.count; ++e)
    for (Index i = 0; i < this->heads(); ++i)
      one_.adjoint(this->sight(here.first + e), of_head(z, e, i), this->attention(p, e, i), share_of(g, e, i),
                   of_head(back, e, i), leads(i) ? T(0) : T(1), work.data());
  this->turn(back, shape_.turned, T(-1));
}

// Where a gradient is no larger than a few rows of Z, a product for every block while it is in the cache.
template <class T>
void FactoredHeadMap<T>::sum_by_groups(In z, In p, In g, Out dparameters) const {
  const Index k = this->tokens_, examples = this->x_.rows / k, width = tile_count(examples, kGroups);
  std::vector<Matrix<T>> parts(static_cast<std::size_t>(tile_count(examples, width)));
  parallel_for(this->threads_, static_cast<Index>(parts.size()), [&](Index group, int) {
    const Tile tile = tile_at(examples, width, group);
    Matrix<T>& part = parts[static_cast<std::size_t>(group)] = Matrix<T>(this->x_.cols, this->columns());
    Matrix<T> back;
    for (const Block& here : this->blocks(tile.begin, tile.size)) {
      if (back.rows() != here.count * k) back = Matrix<T>(here.count * k, this->columns());
      take_back(here, this->rows_of(z, here), this->attention_of(p, here), this->rows_of(g, here), back);
      gemm(Trans::yes, Trans::no, T(1), this->tokens_of(here), std::as_const(back).view(),
           here.first == tile.begin ? T(0) : T(1), part.view());
    }
  });
  this->add_in_order(parts, dparameters);
}

// Where it is larger, a product for many blocks, which threads share by tiles of the gradient.
template <class T>
void FactoredHeadMap<T>::sum_by_panels(In z, In p, In g, Out dparameters) const {
  const Index k = this->tokens_, examples = this->x_.rows / k,
              width = std::clamp<Index>(kPanelRows / k, 1, examples),
              step = std::max<Index>(1, kBackRows / k);
  Matrix<T> back(width * k, this->columns());
  for (Index panel = 0; panel < tile_count(examples, width); ++panel) {
    const Tile tile = tile_at(examples, width, panel);
    parallel_for(this->threads_, tile_count(tile.size, step), [&](Index item, int) {
      const Tile own = tile_at(tile.size, step, item);
      const Block here{tile.begin + own.begin, own.size};
      take_back(here, this->rows_of(z, here), this->attention_of(p, here), this->rows_of(g, here),
                this->rows_of(back.view(), {own.begin, own.size}));
    });
    multiply_tall(T(1), this->tokens_of({tile.begin, tile.size}),
                  this->rows_of(std::as_const(back).view(), {0, tile.size}), panel == 0 ? T(0) : T(1),
                  dparameters, this->threads_);
  }
}

template <class T>
void FactoredHeadMap<T>::adjoint(In z, In p, In g, Out dparameters) const {
  if (kGroups * this->x_.cols <= kPanelRows)
    sum_by_groups(z, p, g, dparameters);
  else
    sum_by_panels(z, p, g, dparameters);
}

template class FactoredHeadMap<float>;
template class FactoredHeadMap<double>;

}  // namespace headlens

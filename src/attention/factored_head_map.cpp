#include "attention/factored_head_map.hpp"

#include <algorithm>
#include <utility>

#include "base/parallel.hpp"
#include "linalg/blas.hpp"
#include "linalg/tiles.hpp"

namespace headlens {
namespace {

// Sums over examples are taken in so many parts: as many as threads may want, and fewer where they are more
// than malloc keeps for the next time.
constexpr Index kGroups = 16, kFewGroups = 8;
constexpr double kPartBytes = 32e6;

template <class T>
Index groups_for(Index rows, Index columns) {
  const double part =
      static_cast<double>(sizeof(T)) * static_cast<double>(std::max<Index>(1, rows * columns));
  return static_cast<Index>(std::clamp(kPartBytes / part, double{kFewGroups}, double{kGroups}));
}

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

template <class T>
void FactoredHeadMap<T>::adjoint(In z, In p, In g, Out dparameters) const {
  const Index k = this->tokens_, d = this->x_.cols, examples = this->x_.rows / k,
              width = tile_count(examples, groups_for<T>(d, this->columns())),
              groups = tile_count(examples, width);
  Matrix<T> parts(groups * d, this->columns());
  parallel_for(this->threads_, groups, [&](Index group, int) {
    const Tile tile = tile_at(examples, width, group);
    Matrix<T> back;
    for (const Block& here : this->blocks(tile.begin, tile.size)) {
      if (back.rows() != here.count * k) back = Matrix<T>(here.count * k, this->columns());
      take_back(here, this->rows_of(z, here), this->attention_of(p, here), this->rows_of(g, here), back);
      gemm(Trans::yes, Trans::no, T(1), this->tokens_of(here), std::as_const(back).view(),
           here.first == tile.begin ? T(0) : T(1), parts.view().block(group * d, 0, d, parts.cols()));
    }
  });
  this->add_in_order(parts, dparameters);
}

template class FactoredHeadMap<float>;
template class FactoredHeadMap<double>;

}  // namespace headlens

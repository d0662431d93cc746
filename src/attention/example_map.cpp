#include "attention/example_map.hpp"

#include <algorithm>
#include <cmath>

#include "attention/attention_map.hpp"
#include "headlens/error.hpp"
#include "linalg/multiply.hpp"
#include "linalg/tiles.hpp"
#include "linalg/vector_space.hpp"

namespace headlens {
namespace {

constexpr Index kMapRows = 256;  // rows whose images are worked on at once
constexpr Index kAppliedRows = 4096;

}  // namespace

template <class T>
ExampleMap<T>::ExampleMap(In x, Index tokens, std::vector<Index> lengths, ExampleMapShape shape, int threads)
    : x_(x),
      tokens_(tokens),
      lengths_(std::move(lengths)),
      threads_(threads_for(2.0 * static_cast<double>(x.rows * x.cols * shape.columns), threads)),
      common_(std::move(shape)) {
  ensure(x.rows % tokens == 0, "attention map: ", x.rows, " rows of ", tokens, " tokens");
  ensure(lengths_.empty() || static_cast<Index>(lengths_.size()) == x.rows / tokens,
         "attention map: one length per example");
  if (!common_.rotary) return;
  const Index pairs = common_.rotary->pairs(common_.rank);
  cosine_ = Matrix<T>(tokens, pairs);
  sine_ = Matrix<T>(tokens, pairs);
  for (Index a = 0; a < tokens; ++a)
    for (Index j = 0; j < pairs; ++j) {
      const double angle = static_cast<double>(a) * common_.rotary->frequency(j, common_.rank);
      cosine_(a, j) = static_cast<T>(std::cos(angle));
      sine_(a, j) = static_cast<T>(std::sin(angle));
    }
}

template <class T>
std::vector<typename ExampleMap<T>::Block> ExampleMap<T>::blocks(Index first, Index count) const {
  const Index step = std::max<Index>(1, kMapRows / tokens_);
  std::vector<Block> out;
  for (Index at = 0; at < count; at += step) out.push_back({first + at, std::min(step, count - at)});
  return out;
}

template <class T>
void ExampleMap<T>::normalise(Index example, Out logits) const {
  const Sight sees = sight(example);
  for (Index a = 0; a < tokens_; ++a) {
    const Index seen = sees.of(a);
    if (seen > 0) softmax_row(logits.row(a), seen);
    std::fill(logits.row(a) + seen, logits.row(a) + tokens_, T(0));
  }
}

template <class T>
void ExampleMap<T>::turn(Out z, Index parts, T sign) const {
  if (!common_.rotary) return;
  for (Index row = 0; row < z.rows; ++row)
    for (Index part = 0; part < parts; ++part)
      for (Index j = 0; j < cosine_.cols(); ++j) {
        const auto [first, second] = common_.rotary->columns(j, common_.rank);
        T &a = z(row, part * common_.rank + first), &b = z(row, part * common_.rank + second);
        const T c = cosine_(row % tokens_, j), s = sign * sine_(row % tokens_, j), turned = a * c - b * s;
        b = a * s + b * c;
        a = turned;
      }
}

template <class T>
void ExampleMap<T>::write_constant(Index first, Out phi) const {
  for (Index row = 0; row < phi.rows; ++row)
    phi(row, phi.cols - 1) = row % tokens_ < length(first + row / tokens_) ? T(1) : T(0);
}

template <class T>
void ExampleMap<T>::add_in_order(const Matrix<T>& parts, Out out) {
  copy_rows(parts.view().block(0, 0, out.rows, out.cols), out);
  for (Index row = out.rows; row < parts.rows(); ++row) {
    const T* const from = parts.view().row(row);
    T* const to = out.row(row % out.rows);
    for (Index j = 0; j < out.cols; ++j) to[j] += from[j];
  }
}

Matrix<double> apply_in_parts(MatrixView<const double> x, Index tokens, const std::vector<Index>& lengths,
                              MatrixView<const double> w, int threads, const ExampleFeatures& features) {
  Matrix<double> out(x.rows, w.cols);
  const Index step = std::max<Index>(1, kAppliedRows / tokens);
  for (Index first = 0; first < x.rows / tokens; first += step) {
    heed();
    const Index count = std::min(step, x.rows / tokens - first), row = first * tokens, rows = count * tokens;
    std::vector<Index> own;
    if (!lengths.empty()) own.assign(lengths.begin() + first, lengths.begin() + first + count);
    const Matrix<double> phi = features(x.block(row, 0, rows, x.cols), own);
    multiply(Trans::no, Trans::no, 1.0, phi.view(), w, 0.0, out.view().block(row, 0, rows, out.cols()),
             threads);
  }
  return out;
}

template class ExampleMap<float>;
template class ExampleMap<double>;

}  // namespace headlens

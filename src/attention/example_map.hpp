// What the maps of attention layers in factors have in common: a fixed set of examples, cut into fixed
// blocks; the tokens that each token sees; the angles by which positions turn queries and keys. For
// parameters with so many columns a map keeps
//
//   z = X parameters (n k, columns),   p the attention (n m k, k),   phi (n k, features).
//
// Sums over blocks are added in order, so threads do not change a bit.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "attention/one_head.hpp"
#include "base/parallel.hpp"
#include "headlens/variant.hpp"
#include "linalg/matrix.hpp"

namespace headlens {

struct ExampleMapShape {
  Index heads = 0;
  Index columns = 0, features = 0;
  Mask mask = Mask::none;
  std::optional<Rotary> rotary = {};
  Index rank = 0;  // columns of a query or key, where they turn
};

template <class T>
class ExampleMap {
 public:
  using In = MatrixView<const T>;
  using Out = MatrixView<T>;

  Index rows() const { return x_.rows; }  // n k
  Index tokens() const { return tokens_; }
  Index heads() const { return common_.heads; }
  Index columns() const { return common_.columns; }    // of the parameters
  Index features() const { return common_.features; }  // columns of phi
  Index length(Index example) const {
    return lengths_.empty() ? tokens_ : lengths_[static_cast<std::size_t>(example)];
  }

  Matrix<T> make_activations() const { return {rows(), common_.columns}; }
  Matrix<T> make_attention() const { return {rows() * heads(), tokens_}; }  // (example m + head) k + token
  Matrix<T> make_phi() const { return {rows(), common_.features}; }

  // (k, k): the attention of one head in one example.
  template <class U>
  MatrixView<U> attention(MatrixView<U> p, Index example, Index head) const {
    return p.block((example * heads() + head) * tokens_, 0, tokens_, tokens_);
  }
  In attention(const Matrix<T>& p, Index example, Index head) const {
    return attention(p.view(), example, head);
  }

  struct Block {
    Index first, count;  // examples
  };
  std::vector<Block> blocks(Index first, Index count) const;
  std::vector<Block> blocks() const { return blocks(0, x_.rows / tokens_); }
  // work(block, its number, worker); blocks write rows of their own.
  template <class Work>
  void over_blocks(Work&& work) const {
    const std::vector<Block> all = blocks();
    parallel_for(threads_, static_cast<Index>(all.size()),
                 [&](Index b, int worker) { work(all[static_cast<std::size_t>(b)], b, worker); });
  }
  // The rows of a block, of a matrix with a row per token and of the attention of all heads.
  template <class U>
  MatrixView<U> rows_of(MatrixView<U> a, Block here) const {
    return a.block(here.first * tokens_, 0, here.count * tokens_, a.cols);
  }
  template <class U>
  MatrixView<U> attention_of(MatrixView<U> p, Block here) const {
    const Index rows = heads() * tokens_;
    return p.block(here.first * rows, 0, here.count * rows, tokens_);
  }

 protected:
  // x (n k, d), kept as a view. lengths: tokens of every example; empty where all have k.
  ExampleMap(In x, Index tokens, std::vector<Index> lengths, ExampleMapShape shape, int threads);

  // start(block), then head(example, i) for every head of the examples of the block.
  template <class Start, class Head>
  void over_heads(Start&& start, Head&& head) const {
    over_blocks([&](Block here, Index, int) {
      start(here);
      for (Index example = here.first; example < here.first + here.count; ++example)
        for (Index i = 0; i < heads(); ++i) head(example, i);
    });
  }
  In tokens_of(Block here) const { return rows_of(x_, here); }

  Sight sight(Index example) const { return {tokens_, length(example), common_.mask == Mask::causal}; }
  // logits (k, k) of one head become its attention: zero where a token is not seen, and in rows of padding.
  void normalise(Index example, Out logits) const;
  // The first so many parts of rank columns turn by the angles of their token, or back with sign -1. z: rows
  // of whole examples.
  void turn(Out z, Index parts, T sign) const;
  // The last column of phi, of layers with biases: 1, and 0 in rows of padding.
  void write_constant(Out phi) const { write_constant(0, phi); }
  void write_constant(Index first, Out phi) const;  // of rows from this example on
  // The sum of matrices of the shape of out, one below the other.
  static void add_in_order(const Matrix<T>& parts, Out out);

  In x_;
  Index tokens_;
  std::vector<Index> lengths_;
  int threads_;

 private:
  ExampleMapShape common_;
  Matrix<T> cosine_, sine_;  // (k, pairs)
};

// F = Phi W (n k, e), a few thousand rows at a time, for the Phi that features() gives of some examples.
using ExampleFeatures =
    std::function<Matrix<double>(MatrixView<const double> x, const std::vector<Index>& lengths)>;
Matrix<double> apply_in_parts(MatrixView<const double> x, Index tokens, const std::vector<Index>& lengths,
                              MatrixView<const double> w, int threads, const ExampleFeatures& features);
// The features of a map, for apply_in_parts().
template <class Map>
Matrix<double> features_of(const Map& map, MatrixView<const double> parameters) {
  Matrix<double> z = map.make_activations(), p = map.make_attention(), phi = map.make_phi();
  map.evaluate(parameters, z, p, phi);
  return phi;
}

}  // namespace headlens

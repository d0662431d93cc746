// A layer whose heads share keys and values in groups, as a function of all its factors at once, for a fixed
// set of examples. Head i of group g has
//
//   P_i = softmax(q_i k_g^T),   Phi_i = P_i v_g,   F = [Phi_1 .. Phi_m | 1] O,
//
// with q_i, k_g, v_g the columns of Z = X [Q_1 .. Q_m | K_1 .. K_g | V_1 .. V_g], turned by their positions
// where there are rotary positions. With biases, tokens have a last coordinate 1 and Phi a last column of
// ones, whose row of O is the constant c. Along dZ, and for the adjoint of G,
//
//   dL = dq k^T + q dk^T,  dP = P * (dL - <P, dL>),  dPhi_i = dP v + P dv
//   C = P * (G_i v^T - <P, G_i v^T>),  dq_i = C k,  dk_g = sum_i C^T q_i,  dv_g = sum_i P^T G_i
//
// Examples are cut into fixed blocks whose sums are added in order, so threads do not change a bit.
#pragma once

#include <optional>
#include <vector>

#include "headlens/variant.hpp"
#include "linalg/matrix.hpp"

namespace headlens::refitting {

struct TiedShape {
  Index rows = 0;  // of Q, K and V: coordinates of a token, and one more with biases
  Index outputs = 0;
  Index heads = 0, groups = 0;  // groups of equally many heads, one after another
  Index rank = 0, value_rank = 0;
  bool bias = false;
  Mask mask = Mask::none;
  std::optional<Rotary> rotary = {};

  Index shared() const { return heads / groups; }
  Index group(Index head) const { return head / shared(); }
  Index q(Index head) const { return head * rank; }  // columns of the parameters
  Index k(Index of_group) const { return (heads + of_group) * rank; }
  Index v(Index of_group) const { return (heads + groups) * rank + of_group * value_rank; }
  Index columns() const { return v(groups); }
  Index features() const { return heads * value_rank + (bias ? 1 : 0); }
  Index dim() const { return rows - (bias ? 1 : 0); }
  // Numbers that a checkpoint of such a layer holds, and that change its outputs: key biases do not, without
  // rotary positions, and value biases are a part of the constant.
  double parameters() const;
};

// All numbers of one layer.
struct TiedLayer {
  TiedShape shape;
  Matrix<double> parameters;  // (rows, columns)
  Matrix<double> readout;     // O (features, e)
};
TiedLayer copy_of(const TiedLayer& layer);

template <class T>
class TiedMap {
 public:
  // x (n k, rows), kept as a view. lengths: tokens of every example; empty where all have k.
  TiedMap(MatrixView<const T> x, Index tokens, const TiedShape& shape, const std::vector<Index>& lengths,
          int threads);

  Index rows() const { return x_.rows; }
  Matrix<T> make_activations() const { return {rows(), shape_.columns()}; }
  Matrix<T> make_attention() const { return {rows() * shape_.heads, tokens_}; }
  Matrix<T> make_phi() const { return {rows(), shape_.features()}; }

  void evaluate(MatrixView<const T> parameters, MatrixView<T> z, MatrixView<T> p, MatrixView<T> phi) const;
  void derivative(MatrixView<const T> z, MatrixView<const T> p, MatrixView<const T> dparameters,
                  MatrixView<T> dphi) const;
  void adjoint(MatrixView<const T> z, MatrixView<const T> p, MatrixView<const T> g,
               MatrixView<T> dparameters) const;

 private:
  struct Block {
    Index first, count;  // examples
  };
  template <class Work>
  void over_blocks(Work&& work) const;
  Index block_count() const;
  Index length(Index example) const {
    return lengths_.empty() ? tokens_ : lengths_[static_cast<std::size_t>(example)];
  }
  template <class U>
  MatrixView<U> attention(MatrixView<U> p, Index example, Index head) const {
    return p.block((example * shape_.heads + head) * tokens_, 0, tokens_, tokens_);
  }
  void images(MatrixView<const T> parameters, Block here, MatrixView<T> z) const;
  void turn(MatrixView<T> z, T sign) const;  // rows of whole examples
  void normalise(Index example, MatrixView<T> logits) const;
  void take_back(MatrixView<const T> z, MatrixView<const T> p, MatrixView<const T> g, Index example,
                 MatrixView<T> back) const;

  MatrixView<const T> x_;
  Index tokens_;
  TiedShape shape_;
  std::vector<Index> lengths_;
  int threads_;
  Matrix<T> cosine_, sine_;  // (k, pairs)
};

// F (n k, e), a few thousand rows at a time.
Matrix<double> apply(const TiedLayer& layer, MatrixView<const double> x, Index tokens,
                     const std::vector<Index>& lengths, int threads);

}  // namespace headlens::refitting

// A layer whose heads share keys and values in groups, as a function of all its factors at once
// (attention/factored_head_map.hpp), for a fixed set of examples. Head i of group g has
//
//   P_i = softmax(q_i k_g^T),   Phi_i = P_i v_g,   F = [Phi_1 .. Phi_m | 1] O,
//
// with q_i, k_g, v_g the columns of Z = X [Q_1 .. Q_m | K_1 .. K_g | V_1 .. V_g], turned by their positions
// where there are rotary positions. With biases, tokens have a last coordinate 1 and Phi a last column of
// ones, whose row of O is the constant c.
#pragma once

#include <optional>
#include <vector>

#include "attention/factored_head_map.hpp"

namespace headlens {

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
  FactoredHeadShape map_shape() const;
};

// All numbers of one layer.
struct TiedLayer {
  TiedShape shape;
  Matrix<double> parameters;  // (rows, columns)
  Matrix<double> readout;     // O (features, e)
};
TiedLayer copy_of(const TiedLayer& layer);

template <class T>
class TiedMap final : public FactoredHeadMap<T> {
 public:
  using typename FactoredHeadMap<T>::In;
  using typename FactoredHeadMap<T>::Out;
  TiedMap(In x, Index tokens, const TiedShape& shape, const std::vector<Index>& lengths, int threads)
      : FactoredHeadMap<T>(x, tokens, shape.map_shape(), lengths, threads), shape_(shape) {}
  // The same map for the same tokens in another precision.
  template <class U>
  TiedMap<U> converted(MatrixView<const U> x) const {
    return {x, this->tokens_, shape_, this->lengths_, this->threads_};
  }
  const TiedShape& shape() const { return shape_; }

 private:
  TiedShape shape_;
};

// F (n k, e), a few thousand rows at a time.
Matrix<double> apply_tied(const TiedLayer& layer, MatrixView<const double> x, Index tokens,
                          const std::vector<Index>& lengths, int threads);

}  // namespace headlens

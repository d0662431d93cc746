// Sets packed for the kernels: tokens xt = [x; 1] divided by their lengths, in double.
//
// Tiles are cut at fixed set numbers that depend on the sets alone, so a kernel entry does not depend on the
// range it is computed in.
#pragma once

#include <vector>

#include "headlens/model.hpp"
#include "headlens/sets.hpp"
#include "linalg/matrix.hpp"

namespace headlens::cpu {

struct TokenTile {
  Matrix<double> queries;  // (sets, D), unit rows; none for mlp
  Matrix<double> keys;     // (sum of N, D), unit rows; mlp: (sets, (N + 1) D), the whole set as one key
  std::vector<double> query_length;  // |xt_0|; 1 for mlp
  std::vector<double> key_length;    // |xt_i|
  std::vector<double> mean;          // xt_0^T W_0 xt_i, W_0 = blockdiag(I_d, 0); 0 for mlp
  std::vector<Index> begin;          // keys of set s are rows begin[s] to begin[s + 1]

  Index sets() const { return static_cast<Index>(begin.size()) - 1; }
};

// mean = xt_0^T W_0 xt_i for another W_0 (D, D).
void set_means(TokenTile& tile, const std::vector<double>& matrix);

// One side of a kernel.
class TokenSource {
 public:
  // Tokens are rounded to `precision` first, as the feature map does; `positions` are added to the keys.
  // `max_keys`: what the tiles are cut for, if `sets` is a block of more; by default the largest of `sets`.
  TokenSource(const Sets& sets, ModelKind kind, Positions positions, Precision precision, Index max_keys = 0);

  const Sets& sets() const { return sets_; }
  Index tile_sets() const { return tile_sets_; }
  Index largest_tile_keys() const;
  TokenTile tile(Index first, Index last) const;  // the sets [first, last)

 private:
  template <class T>
  TokenTile pack(Index first, Index last) const;

  const Sets& sets_;
  bool mlp_;
  Precision precision_;
  Index tile_sets_;
  std::vector<double> table_;
};

}  // namespace headlens::cpu

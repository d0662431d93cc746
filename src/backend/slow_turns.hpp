// What makes layers with rotary positions ill-conditioned, solved exactly. Pairs of columns that turn little
// between the tokens of an example are nearly columns that do not turn at all, whose (Q A, -K A^T) changes no
// head for any A: for those pairs the labels hardly change. With q_a, k_b before the turns R_a and R_b
//
//   dL_ab = q_a (A R_a R_b^T - R_a R_b^T A) k_b^T
//
// is small, and J^T P_perp J is as small as its square. On these directions Z of one group of heads, the
// preconditioner adds Z (H + mu Z^T Z)^-1 Z^T with H = sum_a |B_a^T dL_a|^2 over a sample of rows (B_a as in
// cpu/layer/factor_curvature.hpp). Directions that change no head at all are left out: complex multiples of a
// pair.
#pragma once

#include <functional>
#include <vector>

#include "backend/factors.hpp"

namespace headlens::backend {

// What is read of a problem at a point: some rows of tokens.
struct TurnedRows {
  const HeadRanks& ranks;
  Index tokens = 0;
  MatrixView<const double> parameters, o;
  Index step = 1;           // one row of so many
  std::vector<Index> rows;  // their numbers
  // Of row i of these: Z of its example (k, columns of the parameters), and its attention in a head (k).
  std::function<MatrixView<const double>(std::size_t i)> images;
  std::function<const double*(std::size_t i, Index head)> weights;
};
// Of so many rows every so many, an odd number; 0 where no pair is slow.
Index turned_step(const HeadRanks& ranks, Index tokens, Index rows);

// Pairs that turn little.
struct SlowColumns {
  std::vector<Index> columns;       // of Q and K, pairs side by side, then those that do not turn
  std::vector<double> frequencies;  // of the pairs
};

class SlowTurns {
 public:
  // Of the group that this head leads; nothing where no pair is slow.
  SlowTurns(const TurnedRows& sample, Index head);
  void shift(double mu);
  // out += Z (H + mu Z^T Z)^-1 Z^T a, both (d, columns of the parameters)
  void add_to(MatrixView<const double> a, MatrixView<double> out) const;

 private:
  // One direction: the entries of A, among the slow columns, that are not zero.
  struct Entry {
    Index row, col;
    double value;
  };
  using Direction = std::vector<Entry>;
  void list_directions(Index pairs);
  void take_curvature(const TurnedRows& sample, Index head);
  Matrix<double> taken(MatrixView<const double> a, Index first) const;

  std::vector<Index> heads_;  // first columns of the queries of the group
  Index keys_ = 0;            // first column of its keys
  SlowColumns slow_;
  std::vector<Direction> directions_;
  std::vector<Matrix<double>> q_;  // (d, slow columns) of every head
  Matrix<double> k_;
  Matrix<double> curvature_, metric_, factor_;
  bool usable_ = false;
};

// Of all groups of heads.
std::vector<SlowTurns> slow_turns_of(const TurnedRows& sample, int threads);

}  // namespace headlens::backend

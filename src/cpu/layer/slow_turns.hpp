// What makes layers with rotary positions ill-conditioned, solved exactly. Pairs of columns that turn little
// between the tokens of an example are nearly columns that do not turn at all, whose (Q A, -K A^T) changes no
// head for any A: for those pairs the labels hardly change. With q_a, k_b before the turns R_a and R_b
//
//   dL_ab = q_a (A R_a R_b^T - R_a R_b^T A) k_b^T
//
// is small, and J^T P_perp J is as small as its square. On these directions Z of one group of heads, the
// preconditioner adds Z (H + mu Z^T Z)^-1 Z^T with H = sum_a |B_a^T dL_a|^2 over a sample of rows (B_a as in
// factor_curvature.hpp). Directions that change no head at all are left out: complex multiples of a pair.
#pragma once

#include <vector>

#include "cpu/layer/factor_problem.hpp"

namespace headlens::cpu {

class SlowTurns {
 public:
  // Of the group that this head leads; nothing where no pair is slow.
  SlowTurns(const FactorProblem& problem, const FactorPoint& point, Index head);
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
  void choose_columns(const FactorProblem& problem);
  void list_directions(Index pairs);
  void take_curvature(const FactorProblem& problem, const FactorPoint& point, Index head);
  Matrix<double> taken(MatrixView<const double> a, Index first) const;

  std::vector<Index> heads_;         // first columns of the queries of the group
  Index keys_ = 0, rank_ = 0;        // first column of its keys
  std::vector<Index> columns_;       // the slow ones, pairs side by side, then those that do not turn
  std::vector<double> frequencies_;  // of the pairs
  std::vector<Direction> directions_;
  std::vector<Matrix<double>> q_;  // (d, slow columns) of every head
  Matrix<double> k_;
  Matrix<double> curvature_, metric_, factor_;
  bool usable_ = false;
};

}  // namespace headlens::cpu

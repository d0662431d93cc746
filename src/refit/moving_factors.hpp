// Factors on their way down: steps of one size along the orthonormal part of the mean gradient.
//
// Every block of columns of Q, K and V, and of rows of O, belongs to one head or group, and its basis is
// arbitrary. With M the running mean of the gradients of a block, its step is
//
//   - rate * size * sqrt(max(rows, columns)) M (M^T M)^(-1/2),
//
// the same in every basis; all directions of a block move, those with small gradients too. Jordan 2024
// (Muon).
#pragma once

#include <vector>

#include "linalg/matrix.hpp"

namespace headlens::refitting {

struct FactorBlock {
  Index row, column, rows, columns;
  double size = 0;  // the root mean square entry of the blocks of one kind
};

class MovingFactors {
 public:
  // Blocks of kind k are those from ends[k - 1] to ends[k].
  MovingFactors(const Matrix<double>& start, std::vector<FactorBlock> blocks, const std::vector<Index>& ends);
  void step(double rate, int threads);

  Matrix<float> value, gradient;

 private:
  void set_sizes(const std::vector<Index>& ends);
  void move(const FactorBlock& block, double rate);

  Matrix<float> mean_;
  std::vector<FactorBlock> blocks_;
};

}  // namespace headlens::refitting

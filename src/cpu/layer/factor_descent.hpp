// First-order descent of backend/factors.hpp on the processor, in float: 18 d^2 flops per row for
// a = b = d = e. One pass takes each block of examples from its tokens forward to R = F - Y and back to dZ,
//
//   Z = X [Q | K | V],   Phi = (P_i v_i)_i,   R = Phi O - Y,   G = R O^T,   dZ = what G asks of Z,
//
// so that all of a block but X, Phi, R and dZ stays in the cache of its thread. Then dO = Phi^T R and
// d[Q | K | V] = X^T dZ over the whole batch, and Adam.
#pragma once

#include <vector>

#include "backend/layer_problem.hpp"
#include "comm/communicator.hpp"
#include "cpu/layer/factor_map.hpp"

namespace headlens::cpu {

class AdamDescent final : public backend::FactorDescent {
 public:
  AdamDescent(const backend::LayerExamples& examples, backend::HeadRanks ranks,
              const backend::FactorValues& start, int threads,
              comm::Communicator& all_ranks = comm::serial());
  // Over ranks each gives its own part of the batch.
  double step(const std::vector<Index>& batch, double rate) override;
  backend::FactorValues values() const override;
  backend::FactorValues mean_values() const override;
  void go_to_mean() override;

 private:
  struct AdamStep {
    float unit;               // of the gradient: Adam does not mind, but kSmall wants it near one
    float along, per_square;  // rate and square, of means that began at zero
    float share;              // of the step in the running mean of the values
  };
  // One array of parameters with its gradient, the running means of Adam, and its own running mean.
  struct Moving {
    Matrix<float> value, gradient, mean, square, averaged;
    explicit Moving(const Matrix<double>& start);
    Index tiles() const;
    void step(Index tile, const AdamStep& by);
  };
  struct Squares {
    double labels = 0, left = 0;  // |Y|^2, |F - Y|^2
  };
  using Map = FactorMap<float>;
  // Where a thread works on a block.
  struct Room {
    Matrix<float> z, p, g;
    void fit(Index rows, const Map& map);
  };
  void make_room(Index rows);
  Squares pass(const Map& map, const std::vector<Index>& batch);
  Squares pass_block(const Map& map, Map::Block here, const std::vector<Index>& batch, Room& room);
  double gather(const std::vector<Index>& batch, Map::Block here);  // returns |Y|^2
  void move(double rate, float unit);
  void hide_missing(const std::vector<Index>& batch, MatrixView<float> left, Index first_row);

  backend::LayerExamples examples_;
  backend::HeadRanks head_ranks_;
  int threads_, steps_ = 0;
  comm::Communicator& ranks_;
  Moving parameters_, o_;
  Matrix<float> x_, left_, phi_, back_;  // of one batch; left_: R
  std::vector<Room> rooms_;              // of every thread
};

}  // namespace headlens::cpu

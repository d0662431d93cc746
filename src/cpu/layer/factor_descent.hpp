// First-order descent of backend/factors.hpp on the processor: forward and backward pass of one batch in
// float, 18 d^2 flops per row for a = b = d = e, then Adam.
#pragma once

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
  // One array of parameters with its gradient, the running means of Adam, and its own running mean.
  struct Moving {
    Matrix<float> value, gradient, mean, square, averaged;
    explicit Moving(const Matrix<double>& start);
    void step(int t, double rate, int threads);
  };
  void gather(const std::vector<Index>& batch);
  void hide_missing(const std::vector<Index>& batch);  // of the batch's F - Y

  backend::LayerExamples examples_;
  backend::HeadRanks head_ranks_;
  int threads_, steps_ = 0;
  comm::Communicator& ranks_;
  Moving parameters_, o_;
  Matrix<float> x_, y_, z_, p_, phi_, g_;  // of one batch
};

}  // namespace headlens::cpu

// First-order descent of backend/factors.hpp on the device: the twin of cpu/layer/factor_descent.hpp. All
// examples lie there in float, so a step sends the numbers of a batch and nothing else.
#pragma once

#include "backend/backend.hpp"
#include "cuda/layer/factor_map.hpp"

namespace headlens::cuda {

class AdamDescent final : public backend::FactorDescent {
 public:
  AdamDescent(const backend::LayerExamples& examples, backend::HeadRanks ranks,
              const backend::FactorValues& start, int threads);
  double step(const std::vector<Index>& batch, double rate) override;
  backend::FactorValues values() const override;
  backend::FactorValues mean_values() const override;
  void go_to_mean() override;

 private:
  // One array of parameters with its gradient, the running means of Adam, and its own running mean.
  struct Moving {
    DeviceMatrix<float> value, gradient, mean, square, averaged;
    Moving(const Matrix<double>& start, int threads);
    void step(int t, double rate);
  };
  void gather(const std::vector<Index>& batch);

  Index tokens_;
  backend::HeadRanks ranks_;
  int threads_, steps_ = 0;
  DeviceMatrix<float> all_x_, all_y_;
  std::vector<double> y_squares_;  // row by row
  Moving parameters_, o_;
  DeviceMatrix<float> x_, y_, z_, p_, phi_, g_;  // of one batch
  DeviceArray<std::int64_t> numbers_;
};

std::unique_ptr<backend::FactorDescent> make_factor_descent(const backend::LayerExamples& examples,
                                                            const backend::HeadRanks& ranks,
                                                            const backend::FactorValues& start,
                                                            const backend::Context& context);

}  // namespace headlens::cuda

// The recovery problem in factors (backend/layer_problem.hpp) on the device: the twin of
// cpu/layer/factor_problem.hpp. Examples, attention, Phi and residuals stay on the device.
#pragma once

#include "backend/backend.hpp"
#include "cuda/layer/factor_map.hpp"
#include "cuda/layer/readout.hpp"

namespace headlens::cuda {

class FactorProblem final : public backend::LayerProblem {
 public:
  FactorProblem(const backend::LayerExamples& examples, backend::HeadRanks ranks, int threads);

  Index rows() const override { return x_.rows(); }
  Index tokens() const override { return tokens_; }
  Index dim() const override { return x_.cols(); }
  Index heads() const override { return ranks_.heads(); }
  Index outputs() const override { return y_.cols(); }
  double y_squares() const override { return y_squares_; }
  double unknowns() const override { return static_cast<double>(dim() * ranks_.parameter_columns()); }

  std::unique_ptr<backend::LayerPoint> make_point() const override;
  void evaluate(Matrix<double> parameters, double ridge, backend::LayerPoint& point) const override;
  void solve_for_w(double ridge, backend::LayerPoint& point) const override;
  Matrix<double> residual(const backend::LayerPoint& point) const override;
  void linearise(backend::LayerPoint&) const override {}  // evaluate() keeps all that derivatives need
  void gradient(const backend::LayerPoint& point, MatrixView<double> dp) const override;
  std::unique_ptr<backend::LinearModel> make_linear_model() const override;

  const backend::HeadRanks& ranks() const { return ranks_; }
  const DeviceMatrix<double>& x() const { return x_; }
  const std::vector<Index>& lengths() const { return lengths_; }
  const SeenLabels& seen() const { return seen_; }
  const FactorMap<double>& map() const { return map_; }
  int threads() const { return threads_; }

 private:
  DeviceMatrix<double> x_, y_;
  SeenLabels seen_;
  Index tokens_;
  std::vector<Index> lengths_;
  backend::HeadRanks ranks_;
  FactorMap<double> map_;
  int threads_;
  double y_squares_;
};

std::unique_ptr<backend::LayerProblem> make_factor_problem(const backend::LayerExamples& examples,
                                                           const backend::HeadRanks& ranks,
                                                           const backend::Context& context);

// F (n k, e), and |F - Y|^2 of the labels that count, some thousand rows at a time.
Matrix<double> apply_factors(const backend::LayerExamples& examples, const backend::HeadRanks& ranks,
                             const backend::FactorValues& values, int threads);
double factor_squares(const backend::LayerExamples& examples, const backend::HeadRanks& ranks,
                      const backend::FactorValues& values, int threads);

}  // namespace headlens::cuda

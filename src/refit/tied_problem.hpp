// The problem of backend/layer_problem.hpp for heads that share keys and values: the parameters are Q, K and
// V of tied_map.hpp, and O, in which the layer is linear, is eliminated. Written for the host alone: a refit
// takes a few thousand rows.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "backend/layer_problem.hpp"
#include "refit/tied_map.hpp"

namespace headlens::refitting {

// Views that outlive their use; x has the last coordinate 1 with biases.
struct TiedExamples {
  MatrixView<const double> x, y;  // (n k, rows), (n k, e)
  Index tokens = 0;
  std::vector<Index> lengths = {};

  Index count() const { return x.rows / tokens; }
  TiedExamples part(Index first, Index count) const;  // of the examples
};

double relative_error(const TiedLayer& layer, const TiedExamples& examples, int threads);  // |F - Y| / |Y|
// O that is best for these Q, K and V: least squares with a ridge of 1e-10 of the mean diagonal of Phi^T Phi.
// False, and O as before, where the features are not finite.
bool solve_readout(TiedLayer& layer, const TiedExamples& examples, int threads);

struct TiedPoint final : backend::LayerPoint {
  Matrix<double> z, p, phi, residual;
  Matrix<double> gram, product, factor;  // Phi^T Phi (lower), Phi^T Y, and the Cholesky factor with the ridge
};

class TiedProblem final : public backend::LayerProblem {
 public:
  TiedProblem(const TiedExamples& examples, const TiedShape& shape, int threads);

  Index rows() const override { return examples_.x.rows; }
  Index tokens() const override { return examples_.tokens; }
  Index dim() const override { return shape_.rows; }
  Index heads() const override { return shape_.heads; }
  Index outputs() const override { return examples_.y.cols; }
  double y_squares() const override { return y_squares_; }
  double unknowns() const override { return static_cast<double>(shape_.rows * shape_.columns()); }

  std::unique_ptr<backend::LayerPoint> make_point() const override;
  void evaluate(Matrix<double> parameters, double ridge, backend::LayerPoint& point) const override;
  void solve_for_w(double ridge, backend::LayerPoint& point) const override;
  Matrix<double> residual(const backend::LayerPoint& point) const override;
  void linearise(backend::LayerPoint&) const override {}  // evaluate() keeps all that derivatives need
  void gradient(const backend::LayerPoint& point, MatrixView<double> dp) const override;
  std::unique_ptr<backend::LinearModel> make_linear_model() const override;

  const TiedMap<double>& map() const { return map_; }
  const TiedShape& shape() const { return shape_; }
  int threads() const { return threads_; }

 private:
  TiedExamples examples_;
  TiedShape shape_;
  TiedMap<double> map_;
  int threads_;
  double y_squares_;
};

}  // namespace headlens::refitting

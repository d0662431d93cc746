// The recovery problem of backend/layer_problem.hpp in all entries of Theta, on the processor.
#pragma once

#include <memory>
#include <vector>

#include "attention/attention_map.hpp"
#include "cpu/layer/readout_problem.hpp"
#include "linalg/matrix.hpp"

namespace headlens::cpu {

struct Point final : ReadoutPoint {  // phi (n k, m d)
  using ReadoutPoint::ReadoutPoint;
  Matrix<double> p;       // (n k m, k)
  Matrix<double> values;  // (n e, m k): (X W)^T of every example and head, once linearised
};
inline Point& as_point(backend::LayerPoint& point) { return static_cast<Point&>(point); }
inline const Point& as_point(const backend::LayerPoint& point) { return static_cast<const Point&>(point); }

class VariableProjection final : public ReadoutProblem {
 public:
  // x (n k, d), y (n k, e): views that outlive this. row_weights, where given: 1 for the rows that count, 0
  // for the others, whose y must be 0.
  VariableProjection(MatrixView<const double> x, MatrixView<const double> y, Index tokens, Index heads,
                     int threads, std::vector<double> row_weights = {},
                     comm::Communicator& ranks = comm::serial());

  Index tokens() const override { return map_.tokens(); }
  Index heads() const override { return map_.heads(); }

  std::unique_ptr<backend::LayerPoint> make_point() const override;
  void linearise(backend::LayerPoint& point) const override;
  void gradient(const backend::LayerPoint& point, MatrixView<double> dtheta) const override;
  std::unique_ptr<backend::LinearModel> make_linear_model() const override;

  // B (m d, m d), lower: the mean over about `rows` rows of (C^i W_i)(C^j W_j)^T times n k, C the covariance
  // of the attended tokens. J^T J is about I_d x B for inputs with identity covariance.
  Matrix<double> curvature(const Point& point, Index rows) const;

  template <class T>
  void weigh_rows(MatrixView<T> a) const;

 private:
  void make_features(ReadoutPoint& point) const override;

  AttentionMap<double> map_;
  std::vector<double> row_weights_;
};

template <class T>
void VariableProjection::weigh_rows(MatrixView<T> a) const {
  for (std::size_t i = 0; i < row_weights_.size(); ++i)
    for (Index j = 0; j < a.cols; ++j) a(static_cast<Index>(i), j) *= static_cast<T>(row_weights_[i]);
}

}  // namespace headlens::cpu

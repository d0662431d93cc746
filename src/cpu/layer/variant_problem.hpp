// The recovery problem of backend/layer_problem.hpp for layers with a mask, biases or rotary positions, on
// the processor: all parameters of the logits (attention/variant_map.hpp) with W' eliminated.
#pragma once

#include <memory>

#include "attention/variant_map.hpp"
#include "cpu/layer/linear_model.hpp"
#include "cpu/layer/readout_problem.hpp"
#include "cpu/layer/tangent_model.hpp"

namespace headlens::cpu {

struct VariantPoint final : ReadoutPoint {
  using ReadoutPoint::ReadoutPoint;
  Matrix<double> z;  // (n k, columns) images of the tokens
  Matrix<double> p;  // (n m k, k)
  Matrix<double> v;  // (n k, m e), once linearised
};
inline VariantPoint& as_variant_point(backend::LayerPoint& point) {
  return static_cast<VariantPoint&>(point);
}
inline const VariantPoint& as_variant_point(const backend::LayerPoint& point) {
  return static_cast<const VariantPoint&>(point);
}

class VariantProblem final : public ReadoutProblem {
 public:
  VariantProblem(const backend::LayerExamples& examples, const VariantShape& shape, int threads);

  Index tokens() const override { return map_.tokens(); }
  Index heads() const override { return map_.shape().heads; }
  double unknowns() const override {
    return static_cast<double>(map_.shape().rows() * map_.shape().columns());
  }

  std::unique_ptr<backend::LayerPoint> make_point() const override;
  void linearise(backend::LayerPoint& point) const override;
  void gradient(const backend::LayerPoint& point, MatrixView<double> dp) const override;
  std::unique_ptr<backend::LinearModel> make_linear_model() const override;

  const VariantMap<double>& map() const { return map_; }
  const std::vector<Index>& lengths() const { return lengths_; }

 private:
  void make_features(ReadoutPoint& point) const override;

  std::vector<Index> lengths_;
  VariantMap<double> map_;
};

// The derivative of the projected residual at one point, in the precision T: applied, never formed.
template <class T>
class VariantTangent {
 public:
  explicit VariantTangent(const VariantProblem& problem);
  void move_to(const VariantPoint& point);
  void derivative(MatrixView<const T> dp, MatrixView<T> image) const;
  void project(MatrixView<T> image) const;
  void adjoint(MatrixView<const T> image, MatrixView<T> dp) const;
  const VariantProblem& problem() const { return problem_; }

 private:
  const VariantProblem& problem_;
  Matrix<T> x_;
  VariantMap<T> map_;
  Matrix<T> z_, p_, v_, q_;
};

// Without rotary positions I x (B + mu), B the mean of (C^i W_i)(C^j W_j)^T over a sample of rows as in
// linear_model.hpp. With them one number per column: with the bends M_a = (diag p_a - p_a p_a^T) v v^T
// (diag p_a - p_a p_a^T) of query a, the curvatures of a pair of columns of Q and of K are
//
//   sum_a |keys of the pair|^2 weighed by M_a / 2,     sum_a |q_a of the pair|^2 / 2 tr(X^T M_a X) / d,
//
// which no turn of the pair changes.
class VariantPreconditioner {
 public:
  void refresh(const VariantProblem& problem, const VariantPoint& point);
  void shift(double mu);
  template <class T>
  Matrix<T> apply(const Matrix<T>& a) const;

 private:
  void refresh_columns(const VariantProblem& problem, const VariantPoint& point);
  Preconditioner whole_;
  std::vector<double> columns_;  // empty without rotary positions
  double mu_ = 0;
};

using VariantModel = TangentModel<VariantProblem, VariantPoint, VariantTangent, VariantPreconditioner>;

}  // namespace headlens::cpu

// The problem in factors with the directions fixed that change no head: (Q A, -K A^T) for every A, and V B
// for every B. J^T P_perp J is zero on them, which would hide its smallest eigenvalue on all others. At a
// balanced point (Q^T Q = K^T K = diag(s), V^T V = 1) the projection onto them is
//
//   A_jl = (Q^T dQ - dK^T K)_jl / (s_j + s_l),   B = V^T dV.
//
// Of a group of heads that share K and V, Q stands for all their queries, one below the other. A pair of
// columns that positions turn has one complex number instead of A: (q, -k) scales and (J q, J k) turns both.
//
// The fixed problem adds a multiple of that projection, its typical curvature, to J^T P_perp J.
#pragma once

#include "recover/factors/factors.hpp"

namespace headlens::recovery {

class GaugeFixed final : public backend::LayerProblem {
 public:
  // part: the projection of a direction onto those that change no head, at the points that will be asked
  // about.
  using Part = std::function<Matrix<double>(MatrixView<const double>)>;
  GaugeFixed(const backend::LayerProblem& problem, Part part, double curvature)
      : problem_(problem), part_(std::move(part)), curvature_(curvature) {}
  // The part at these factors, which are balanced and outlive this: a machine may compute it.
  GaugeFixed(const backend::LayerProblem& problem, const Factors& factors, double curvature);

  Index rows() const override { return problem_.rows(); }
  Index tokens() const override { return problem_.tokens(); }
  Index dim() const override { return problem_.dim(); }
  Index heads() const override { return problem_.heads(); }
  Index outputs() const override { return problem_.outputs(); }
  double y_squares() const override { return problem_.y_squares(); }
  double unknowns() const override { return problem_.unknowns(); }
  std::unique_ptr<backend::LayerPoint> make_point() const override { return problem_.make_point(); }
  void evaluate(Matrix<double> parameters, double ridge, backend::LayerPoint& point) const override {
    problem_.evaluate(std::move(parameters), ridge, point);
  }
  void solve_for_w(double ridge, backend::LayerPoint& point) const override {
    problem_.solve_for_w(ridge, point);
  }
  Matrix<double> residual(const backend::LayerPoint& point) const override {
    return problem_.residual(point);
  }
  void linearise(backend::LayerPoint& point) const override { problem_.linearise(point); }
  void gradient(const backend::LayerPoint& point, MatrixView<double> dp) const override {
    problem_.gradient(point, dp);
  }
  std::unique_ptr<backend::LinearModel> make_linear_model() const override;

 private:
  const backend::LayerProblem& problem_;
  Part part_;
  double curvature_;
  const Factors* factors_ = nullptr;
};

// The part of a (d, 2 a + b) that changes no head, at balanced factors.
Matrix<double> gauge_part(const Factors& factors, MatrixView<const double> a);

}  // namespace headlens::recovery

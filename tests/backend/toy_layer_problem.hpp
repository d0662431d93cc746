// The recovery problem by the obvious loops: dense matrices, Gauss-Jordan, one entry after the other. A back
// end that shares nothing with src/cpu, to show that recoveries need nothing of the processor's.
#pragma once

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "attention/packing.hpp"
#include "backend/layer_problem.hpp"
#include "reference/attention_jacobian.hpp"

namespace headlens::toy {

// The solution of a x = b for a symmetric positive definite `a`, by elimination.
inline Matrix<double> solve(const Matrix<double>& a, const Matrix<double>& b) {
  const Index p = a.rows(), q = b.cols();
  Matrix<double> t(p, p + q);
  for (Index i = 0; i < p; ++i) {
    for (Index j = 0; j < p; ++j) t(i, j) = a(i, j);
    for (Index c = 0; c < q; ++c) t(i, p + c) = b(i, c);
  }
  for (Index pivot = 0; pivot < p; ++pivot)
    for (Index i = 0; i < p; ++i) {
      if (i == pivot) continue;
      const double factor = t(i, pivot) / t(pivot, pivot);
      for (Index j = pivot; j < p + q; ++j) t(i, j) -= factor * t(pivot, j);
    }
  Matrix<double> x(p, q);
  for (Index i = 0; i < p; ++i)
    for (Index c = 0; c < q; ++c) x(i, c) = t(i, p + c) / t(i, i);
  return x;
}

inline Matrix<double> product(const Matrix<double>& a, bool transposed, MatrixView<const double> b) {
  const Index rows = transposed ? a.cols() : a.rows(), inner = transposed ? a.rows() : a.cols();
  Matrix<double> out = Matrix<double>::zeros(rows, b.cols);
  for (Index i = 0; i < rows; ++i)
    for (Index k = 0; k < inner; ++k)
      for (Index j = 0; j < b.cols; ++j) out(i, j) += (transposed ? a(k, i) : a(i, k)) * b(k, j);
  return out;
}

struct LayerCalls {
  int problems = 0, evaluations = 0, gradients = 0, solves = 0, products = 0;
};

struct LayerPoint final : backend::LayerPoint {
  Matrix<double> phi, gram, residual;  // gram: Phi^T Phi + lambda
  Matrix<double> jacobian;             // (n k e, d m d), columns as the entries of the parameters
};

class LayerProblem final : public backend::LayerProblem {
 public:
  LayerProblem(backend::LayerExamples examples, Index heads, LayerCalls& calls)
      : examples_(std::move(examples)), heads_(heads), calls_(calls) {
    for (Index i = 0; i < rows(); ++i)
      for (Index c = 0; c < outputs(); ++c) y_squares_ += examples_.y(i, c) * examples_.y(i, c);
    ++calls_.problems;
  }

  Index rows() const override { return examples_.x.rows; }
  Index tokens() const override { return examples_.tokens; }
  Index dim() const override { return examples_.x.cols; }
  Index heads() const override { return heads_; }
  Index outputs() const override { return examples_.y.cols; }
  double y_squares() const override { return y_squares_; }
  LayerCalls& calls() const { return calls_; }

  std::unique_ptr<backend::LayerPoint> make_point() const override { return std::make_unique<LayerPoint>(); }

  void evaluate(Matrix<double> parameters, double ridge, backend::LayerPoint& at) const override {
    auto& point = static_cast<LayerPoint&>(at);
    ++calls_.evaluations;
    point.parameters = std::move(parameters);
    point.phi = Matrix<double>::zeros(rows(), heads_ * dim());
    for (Index row = 0; row < rows(); ++row)
      for (Index i = 0; i < heads_; ++i) attend(point, row, i);
    solve_for_w(ridge, point);
  }

  void solve_for_w(double ridge, backend::LayerPoint& at) const override {
    auto& point = static_cast<LayerPoint&>(at);
    point.gram = product(point.phi, true, point.phi);
    double trace = 0;
    for (Index j = 0; j < point.gram.rows(); ++j) trace += point.gram(j, j);
    trace /= static_cast<double>(point.gram.rows());
    for (Index j = 0; j < point.gram.rows(); ++j) point.gram(j, j) += (ridge + 1e-14) * trace;
    point.w = solve(point.gram, product(point.phi, true, examples_.y));
    point.residual = product(point.phi, false, point.w);
    point.squares = 0;
    double size = 0;
    for (Index i = 0; i < rows(); ++i)
      for (Index c = 0; c < outputs(); ++c) {
        point.residual(i, c) = weight(i) * (examples_.y(i, c) - point.residual(i, c));
        point.squares += point.residual(i, c) * point.residual(i, c);
      }
    for (Index i = 0; i < point.w.rows() * point.w.cols(); ++i) size += point.w.data()[i] * point.w.data()[i];
    point.cost = point.squares + ridge * trace * size;
    point.finite = std::isfinite(point.cost);
  }

  Matrix<double> residual(const backend::LayerPoint& at) const override {
    const auto& from = static_cast<const LayerPoint&>(at).residual;
    Matrix<double> out(from.rows(), from.cols());
    std::copy_n(from.data(), from.rows() * from.cols(), out.data());
    return out;
  }

  void linearise(backend::LayerPoint& at) const override {
    auto& point = static_cast<LayerPoint&>(at);
    const Index d = dim();
    Array x(DType::f64, {rows() / tokens(), tokens(), d});
    for (Index i = 0; i < rows(); ++i)
      for (Index q = 0; q < d; ++q) x.data<double>()[i * d + q] = examples_.x(i, q);
    const Matrix<double> all = reference::attention_jacobian(unpack_layer(point.parameters, point.w), x);
    point.jacobian = Matrix<double>(all.rows(), heads() * dim() * dim());
    for (Index r = 0; r < all.rows(); ++r)
      for (Index q = 0; q < d; ++q)
        for (Index i = 0; i < heads_; ++i)
          for (Index s = 0; s < d; ++s)
            point.jacobian(r, (q * heads_ + i) * d + s) = weight(r / outputs()) * all(r, (i * d + q) * d + s);
  }

  void gradient(const backend::LayerPoint& at, MatrixView<double> dp) const override {
    const auto& point = static_cast<const LayerPoint&>(at);
    ++calls_.gradients;
    const Matrix<double> out =
        product(point.jacobian, true, {point.residual.data(), point.residual.rows() * outputs(), 1});
    std::copy_n(out.data(), dp.rows * dp.cols, dp.data);
  }

  std::unique_ptr<backend::LinearModel> make_linear_model() const override;

 private:
  double weight(Index row) const {
    return examples_.row_weights.empty() ? 1 : examples_.row_weights[static_cast<std::size_t>(row)];
  }

  // Row `row` of P^i X.
  void attend(LayerPoint& point, Index row, Index head) const {
    const Index d = dim(), k = tokens(), first = row / k * k;
    std::vector<double> p(static_cast<std::size_t>(k));
    double highest = -INFINITY, sum = 0;
    for (Index b = 0; b < k; ++b) {
      double& logit = p[static_cast<std::size_t>(b)];
      for (Index q = 0; q < d; ++q)
        for (Index r = 0; r < d; ++r)
          logit += examples_.x(row, q) * point.parameters(q, head * d + r) * examples_.x(first + b, r);
      highest = std::max(highest, logit);
    }
    for (double& logit : p) sum += logit = std::exp(logit - highest);
    for (Index b = 0; b < k; ++b)
      for (Index r = 0; r < d; ++r)
        point.phi(row, head * d + r) +=
            weight(row) * p[static_cast<std::size_t>(b)] / sum * examples_.x(first + b, r);
  }

  backend::LayerExamples examples_;
  Index heads_;
  LayerCalls& calls_;
  double y_squares_ = 0;
};

class LinearModel final : public backend::LinearModel {
 public:
  explicit LinearModel(const LayerProblem& problem) : problem_(problem) {}

  void move_to(const backend::LayerPoint& point) override { point_ = &static_cast<const LayerPoint&>(point); }
  void refresh_preconditioner(const backend::LayerPoint&) override {}
  void shift_preconditioner(double) override {}
  Matrix<double> precondition(const Matrix<double>& a) const override {
    Matrix<double> out(a.rows(), a.cols());
    std::copy_n(a.data(), a.rows() * a.cols(), out.data());
    return out;
  }

  backend::Step solve(const Matrix<double>& gradient, double mu, double, int, Precision,
                      const std::function<bool()>&) override {
    ++problem_.calls().solves;
    const auto p = static_cast<Index>(problem_.unknowns());
    const Index e = problem_.outputs();
    Matrix<double> projected(point_->jacobian.rows(), p);
    for (Index j = 0; j < p; ++j) {
      Matrix<double> column(problem_.rows(), e);
      for (Index r = 0; r < projected.rows(); ++r) column.data()[r] = point_->jacobian(r, j);
      project(column);
      for (Index r = 0; r < projected.rows(); ++r) projected(r, j) = column.data()[r];
    }
    Matrix<double> normal = product(projected, true, projected);
    for (Index j = 0; j < p; ++j) normal(j, j) += mu;
    Matrix<double> rhs(p, 1);
    std::copy_n(gradient.data(), p, rhs.data());
    const Matrix<double> found = toy::solve(normal, rhs);
    backend::Step step{Matrix<double>(gradient.rows(), gradient.cols()), 0, 1};
    std::copy_n(found.data(), p, step.direction.data());
    for (Index j = 0; j < p; ++j) step.predicted += found.data()[j] * (rhs.data()[j] + mu * found.data()[j]);
    return step;
  }

  void derivative(MatrixView<const double> dp, MatrixView<double> z) override {
    const Matrix<double> out = product(point_->jacobian, false, {dp.data, dp.rows * dp.cols, 1});
    std::copy_n(out.data(), out.rows(), z.data);
  }
  void project(MatrixView<double> z) override {
    const Matrix<double> fitted = product(point_->phi, false, best_w(z));
    for (Index i = 0; i < z.rows; ++i)
      for (Index c = 0; c < z.cols; ++c) z(i, c) -= fitted(i, c);
  }
  void adjoint(MatrixView<const double> z, MatrixView<double> dp) override {
    const Matrix<double> out = product(point_->jacobian, true, {z.data, z.rows * z.cols, 1});
    std::copy_n(out.data(), out.rows(), dp.data);
  }
  void normal_product(MatrixView<const double> a, MatrixView<double> out) override {
    ++problem_.calls().products;
    Matrix<double> z(problem_.rows(), problem_.outputs());
    derivative(a, z);
    project(z);
    adjoint(z, out);
  }
  Matrix<double> best_w(MatrixView<const double> z) override {
    return toy::solve(point_->gram, product(point_->phi, true, z));
  }

 private:
  const LayerProblem& problem_;
  const LayerPoint* point_ = nullptr;
};

inline std::unique_ptr<backend::LinearModel> LayerProblem::make_linear_model() const {
  return std::make_unique<LinearModel>(*this);
}

}  // namespace headlens::toy

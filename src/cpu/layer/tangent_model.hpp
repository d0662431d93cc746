// The linear model of backend/layer_problem.hpp around any problem whose derivative can be applied in float
// and in double. The equations of a Levenberg-Marquardt step need few digits, so most are solved in float, at
// half the cost.
#pragma once

#include <functional>
#include <optional>

#include "cpu/layer/readout.hpp"
#include "cpu/layer/step_solver.hpp"

namespace headlens::cpu {

// to = from, in another precision.
template <class T>
void convert(MatrixView<const double> from, MatrixView<T> to) {
  for (Index i = 0; i < from.rows; ++i)
    for (Index j = 0; j < from.cols; ++j) to(i, j) = static_cast<T>(from(i, j));
}

template <class T>
Matrix<T> converted(MatrixView<const double> from) {
  Matrix<T> out(from.rows, from.cols);
  convert(from, out.view());
  return out;
}

// Tangent<T>: move_to(point), derivative, project, adjoint. The preconditioner is refreshed from a point, or
// from the point and the tangent in float.
template <class Problem, class Point, template <class> class Tangent, class Preconditioner>
class TangentModel final : public backend::LinearModel {
 public:
  explicit TangentModel(const Problem& problem) : problem_(problem) {}

  void move_to(const backend::LayerPoint& point) override {
    point_ = &static_cast<const Point&>(point);
    single_.moved = double_.moved = false;
  }
  void refresh_preconditioner(const backend::LayerPoint& at) override {
    const Point& point = static_cast<const Point&>(at);
    if constexpr (requires { preconditioner_.refresh(problem_, point); })
      preconditioner_.refresh(problem_, point);
    else
      preconditioner_.refresh(problem_, point, at_point(single_));
  }
  void shift_preconditioner(double mu) override { preconditioner_.shift(mu); }
  backend::Step solve(const Matrix<double>& gradient, double mu, double tolerance, int cap,
                      Precision precision, const std::function<bool()>& expired) override {
    if (precision == Precision::f64)
      return solve_step<double>(in_double(), gradient, mu, tolerance, cap, preconditioner_, expired);
    return solve_step<float>(at_point(single_), gradient, mu, tolerance, cap, preconditioner_, expired);
  }
  Matrix<double> precondition(const Matrix<double>& a) const override { return preconditioner_.apply(a); }
  void derivative(MatrixView<const double> dp, MatrixView<double> z) override {
    in_double().derivative(dp, z);
  }
  void project(MatrixView<double> z) override { in_double().project(z); }
  void adjoint(MatrixView<const double> z, MatrixView<double> dp) override { in_double().adjoint(z, dp); }
  void normal_product(MatrixView<const double> a, MatrixView<double> out) override {
    if (image_.rows() == 0) image_ = Matrix<double>(problem_.rows(), problem_.outputs());
    cpu::normal_product<double>(in_double(), a, image_.view(), out);
  }
  Matrix<double> best_w(MatrixView<const double> z) override {
    return best_readout(*point_, z, problem_.threads());
  }

 private:
  // A tangent is moved to the point when the point is first used in that precision.
  template <class T>
  struct Lazy {
    std::optional<Tangent<T>> tangent;
    bool moved = false;
  };
  template <class T>
  const Tangent<T>& at_point(Lazy<T>& lazy) {
    if (!lazy.tangent) lazy.tangent.emplace(problem_);
    if (!lazy.moved) lazy.tangent->move_to(*point_);
    lazy.moved = true;
    return *lazy.tangent;
  }
  const Tangent<double>& in_double() { return at_point(double_); }

  const Problem& problem_;
  const Point* point_ = nullptr;
  Preconditioner preconditioner_;
  Lazy<float> single_;
  Lazy<double> double_;
  Matrix<double> image_;  // (n k, e), scratch
};

}  // namespace headlens::cpu

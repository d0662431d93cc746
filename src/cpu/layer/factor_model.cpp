#include "cpu/layer/factor_model.hpp"

#include <utility>

#include "cpu/layer/step_solver.hpp"
#include "linalg/multiply.hpp"

namespace headlens::cpu {
namespace {

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

}  // namespace

template <class T>
FactorTangent<T>::FactorTangent(const FactorProblem& problem)
    : problem_(problem),
      x_(converted<T>(problem.x())),
      map_(std::as_const(x_).view(), problem.tokens(), problem.ranks(), problem.threads()),
      z_(map_.make_activations()),
      p_(map_.make_attention()),
      o_(problem.ranks().value_columns(), problem.outputs()),
      q_(map_.make_phi()) {}

template <class T>
void FactorTangent<T>::move_to(const FactorPoint& point) {
  convert<T>(point.z.view(), z_.view());
  convert<T>(point.p.view(), p_.view());
  convert<T>(point.w.view(), o_.view());
  orthonormal_features(point, problem_.threads(), q_.view());
}

template <class T>
void FactorTangent<T>::derivative(MatrixView<const T> dp, MatrixView<T> image) const {
  Matrix<T> dphi = map_.make_phi();
  map_.derivative(z_, p_, dp, dphi);
  multiply(Trans::no, Trans::no, T(1), std::as_const(dphi).view(), o_.view(), T(0), image,
           problem_.threads());
}

template <class T>
void FactorTangent<T>::project(MatrixView<T> image) const {
  project_out<T>(q_.view(), problem_.threads(), image);
}

template <class T>
void FactorTangent<T>::adjoint(MatrixView<const T> image, MatrixView<T> dp) const {
  Matrix<T> g = map_.make_phi();
  multiply(Trans::no, Trans::yes, T(1), image, o_.view(), T(0), g.view(), problem_.threads());
  map_.adjoint(z_, p_, g, dp);
}

template <class T>
void FactorTangent<T>::normal_product(MatrixView<const T> a, MatrixView<T> image, MatrixView<T> out) const {
  derivative(a, image);
  project(image);
  adjoint(image, out);
}

template class FactorTangent<float>;
template class FactorTangent<double>;

void FactorModel::move_to(const backend::LayerPoint& point) {
  point_ = &as_factor_point(point);
  single_.moved = double_.moved = false;
}

template <class T>
const FactorTangent<T>& FactorModel::at_point(Lazy<T>& lazy) {
  if (!lazy.tangent) lazy.tangent.emplace(problem_);
  if (!lazy.moved) lazy.tangent->move_to(*point_);
  lazy.moved = true;
  return *lazy.tangent;
}

void FactorModel::refresh_preconditioner(const backend::LayerPoint& point) {
  curvature_.refresh(problem_, as_factor_point(point), at_point(single_).orthonormal());
}

backend::Step FactorModel::solve(const Matrix<double>& gradient, double mu, double tolerance, int cap,
                                 Precision precision, const std::function<bool()>& expired) {
  if (precision == Precision::f64)
    return solve_step<double>(at_point(double_), gradient, mu, tolerance, cap, curvature_, expired);
  return solve_step<float>(at_point(single_), gradient, mu, tolerance, cap, curvature_, expired);
}

void FactorModel::normal_product(MatrixView<const double> a, MatrixView<double> out) {
  if (image_.rows() == 0) image_ = Matrix<double>(problem_.rows(), problem_.outputs());
  in_double().normal_product(a, image_.view(), out);
}

Matrix<double> FactorModel::best_w(MatrixView<const double> z) {
  return best_readout(*point_, z, problem_.threads());
}

}  // namespace headlens::cpu

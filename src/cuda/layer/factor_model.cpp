#include "cuda/layer/factor_model.hpp"

#include <cmath>

#include "cuda/layer/device_directions.hpp"
#include "cuda/layer/step_solver.hpp"
#include "cuda/layer/vectors.hpp"

namespace headlens::cuda {
namespace {

template <class T>
DeviceMatrix<T> in_precision(const DeviceMatrix<double>& a) {
  DeviceMatrix<T> out(a.rows(), a.cols());
  convert(a.data(), a.size(), out.data());
  return out;
}

}  // namespace

template <class T>
FactorTangent<T>::FactorTangent(const FactorProblem& problem)
    : x_(in_precision<T>(problem.x())),
      seen_(problem.seen()),
      map_(std::as_const(x_).view(), problem.tokens(), problem.ranks(), problem.lengths()) {}

template <class T>
void FactorTangent<T>::move_to(const FactorPoint& point) {
  z_ = in_precision<T>(point.z);
  p_ = in_precision<T>(point.p);
  o_ = in_precision<T>(point.o);
  q_ = in_precision<T>(orthonormal_features(point));
  if (!seen_.all()) cores_ = in_precision<T>(point.cores);
}

template <class T>
void FactorTangent<T>::derivative(MatrixView<const T> dp, DeviceMatrix<T>& image) const {
  DeviceMatrix<T> dphi = map_.make_phi();
  map_.derivative(z_.data(), p_.data(), dp, dphi);
  multiply(Trans::no, Trans::no, 1, MatrixView<const T>(dphi.view()), o_.view(), 0, image.view());
}

template <class T>
void FactorTangent<T>::project(DeviceMatrix<T>& image) const {
  DeviceMatrix<T> c(q_.cols(), image.cols());
  seen_.hide(image);
  multiply(Trans::yes, Trans::no, 1, q_.view(), MatrixView<const T>(image.view()), 0, c.view());
  if (!seen_.all()) seen_.solve(cores_, c);
  multiply(Trans::no, Trans::no, -1, q_.view(), MatrixView<const T>(c.view()), 1, image.view());
  seen_.hide(image);
}

template <class T>
void FactorTangent<T>::adjoint(const DeviceMatrix<T>& image, MatrixView<T> dp) const {
  DeviceMatrix<T> g = map_.make_phi();
  multiply(Trans::no, Trans::yes, 1, image.view(), o_.view(), 0, g.view());
  map_.adjoint(z_.data(), p_.data(), g, dp);
}

template <class T>
void FactorTangent<T>::normal_product(MatrixView<const T> a, DeviceMatrix<T>& image,
                                      MatrixView<T> out) const {
  derivative(a, image);
  project(image);
  adjoint(image, out);
}

template <class T>
const FactorTangent<T>& FactorModel::at_point(Lazy<T>& lazy) {
  if (!lazy.tangent) lazy.tangent.emplace(problem_);
  if (!lazy.moved) lazy.tangent->move_to(*point_);
  lazy.moved = true;
  return *lazy.tangent;
}

void FactorModel::move_to(const backend::LayerPoint& point) {
  point_ = &as_factor_point(point);
  single_.moved = double_.moved = false;
}

void FactorModel::refresh_preconditioner(const backend::LayerPoint&) {
  curvature_.refresh(problem_, *point_, at_point(single_));
}

backend::Step FactorModel::solve(const Matrix<double>& gradient, double mu, double tolerance, int cap,
                                 Precision precision, const std::function<bool()>& expired) {
  const StepRequest request{gradient, mu, tolerance, cap, problem_.threads(), expired};
  const Index outputs = problem_.outputs();
  if (precision == Precision::f64)
    return solve_step<double>(at_point(double_), curvature_, request, problem_.rows(), outputs);
  return solve_step<float>(at_point(single_), curvature_, request, problem_.rows(), outputs);
}

Matrix<double> FactorModel::precondition(const Matrix<double>& a) const {
  DeviceMatrix<double> work = upload<double>(a.view(), problem_.threads());
  curvature_.apply(work);
  return download(work, problem_.threads());
}

void FactorModel::derivative(MatrixView<const double> dp, MatrixView<double> z) {
  const DeviceMatrix<double> from = upload<double>(dp, problem_.threads());
  DeviceMatrix<double> image(z.rows, z.cols);
  at_point(double_).derivative(from.view(), image);
  download(image, problem_.threads(), z);
}

void FactorModel::project(MatrixView<double> z) {
  DeviceMatrix<double> image = upload<double>(z, problem_.threads());
  at_point(double_).project(image);
  download(image, problem_.threads(), z);
}

void FactorModel::adjoint(MatrixView<const double> z, MatrixView<double> dp) {
  const DeviceMatrix<double> image = upload<double>(z, problem_.threads());
  DeviceMatrix<double> out(dp.rows, dp.cols);
  at_point(double_).adjoint(image, out.view());
  download(out, problem_.threads(), dp);
}

void FactorModel::normal_product(MatrixView<const double> a, MatrixView<double> out) {
  DeviceMatrix<double> to(out.rows, out.cols);
  normal_product(upload<double>(a, problem_.threads()), to);
  download(to, problem_.threads(), out);
}

void FactorModel::normal_product(const DeviceMatrix<double>& a, DeviceMatrix<double>& out) {
  DeviceMatrix<double> image(problem_.rows(), problem_.outputs());
  at_point(double_).normal_product(a.view(), image, out.view());
}

Matrix<double> FactorModel::best_w(MatrixView<const double> z) {
  return download(best_readout(*point_, upload<double>(z, problem_.threads())), problem_.threads());
}

void FactorModel::respond(MatrixView<const double> nu, MatrixView<double> dp) {
  DeviceMatrix<double> image = upload<double>(nu, problem_.threads()), out(dp.rows, dp.cols);
  at_point(double_).project(image);
  at_point(double_).adjoint(image, out.view());
  download(out, problem_.threads(), dp);
}

Matrix<double> FactorModel::respond_in_w(MatrixView<const double> nu, MatrixView<const double> dp) {
  const DeviceMatrix<double> from = upload<double>(dp, problem_.threads());
  DeviceMatrix<double> left = upload<double>(nu, problem_.threads()), moved(nu.rows, nu.cols);
  at_point(double_).derivative(from.view(), moved);
  add_scaled(-1, moved.data(), moved.size(), left.data());
  return download(best_readout(*point_, std::move(left)), problem_.threads());
}

std::unique_ptr<backend::Directions> FactorModel::directions() {
  return make_device_directions(*this, problem_.threads(), std::nullopt);
}

std::unique_ptr<backend::Directions> FactorModel::directions(const backend::FixedGauge& gauge) {
  const bool mixes_one_head = gauge.ranks.shared == 1 && !gauge.ranks.rotary;  // what Gauge knows
  if (!mixes_one_head) return nullptr;
  return make_device_directions(*this, problem_.threads(), Gauge(gauge, problem_.threads()));
}

template class FactorTangent<float>;
template class FactorTangent<double>;

}  // namespace headlens::cuda

#include "cpu/layer/variant_problem.hpp"

#include <utility>

namespace headlens::cpu {

VariantProblem::VariantProblem(const backend::LayerExamples& examples, const VariantShape& shape, int threads)
    : ReadoutProblem(examples, threads),
      lengths_(examples.lengths),
      map_(x(), examples.tokens, shape, lengths_, threads) {}

std::unique_ptr<backend::LayerPoint> VariantProblem::make_point() const {
  auto point = std::make_unique<VariantPoint>(rows(), map_.shape().features(), outputs(), ranks(), seen());
  point->z = map_.make_activations();
  point->p = map_.make_attention();
  point->v = Matrix<double>(rows(), heads() * outputs());
  return point;
}

void VariantProblem::make_features(ReadoutPoint& at) const {
  VariantPoint& point = as_variant_point(at);
  map_.evaluate(point.parameters, point.z, point.p, point.phi);
}

void VariantProblem::linearise(backend::LayerPoint& at) const {
  VariantPoint& point = as_variant_point(at);
  map_.values(point.w, point.v);
}

void VariantProblem::gradient(const backend::LayerPoint& at, MatrixView<double> dp) const {
  const VariantPoint& point = as_variant_point(at);
  map_.adjoint(point.z, point.p, point.v, point.residual, dp);
}

std::unique_ptr<backend::LinearModel> VariantProblem::make_linear_model() const {
  return std::make_unique<VariantModel>(*this);
}

template <class T>
VariantTangent<T>::VariantTangent(const VariantProblem& problem)
    : problem_(problem),
      x_(converted<T>(problem.x())),
      map_(std::as_const(x_).view(), problem.tokens(), problem.map().shape(), problem.lengths(),
           problem.threads()),
      z_(map_.make_activations()),
      p_(map_.make_attention()),
      v_(problem.rows(), problem.heads() * problem.outputs()),
      q_(map_.make_phi()) {}

template <class T>
void VariantTangent<T>::move_to(const VariantPoint& point) {
  point_ = &point;
  convert<T>(point.z.view(), z_.view());
  convert<T>(point.p.view(), p_.view());
  convert<T>(point.v.view(), v_.view());
  orthonormal_features(point, problem_.threads(), q_.view());
}

template <class T>
void VariantTangent<T>::derivative(MatrixView<const T> dp, MatrixView<T> image) const {
  map_.derivative(z_, p_, v_, dp, image);
}

template <class T>
void VariantTangent<T>::project(MatrixView<T> image) const {
  project_seen<T>(*point_, q_.view(), problem_.threads(), image);
}

template <class T>
void VariantTangent<T>::adjoint(MatrixView<const T> image, MatrixView<T> dp) const {
  map_.adjoint(z_, p_, v_, image, dp);
}

template class VariantTangent<float>;
template class VariantTangent<double>;

}  // namespace headlens::cpu

#include "cpu/layer/factor_model.hpp"

#include <utility>

#include "cpu/layer/step_solver.hpp"
#include "linalg/multiply.hpp"

namespace headlens::cpu {

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

template class FactorTangent<float>;
template class FactorTangent<double>;

}  // namespace headlens::cpu

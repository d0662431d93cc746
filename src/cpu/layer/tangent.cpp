#include "cpu/layer/tangent.hpp"

#include <utility>

#include "cpu/layer/sum_over.hpp"
#include "cpu/layer/tangent_model.hpp"

namespace headlens::cpu {

template <class T>
Tangent<T>::Tangent(const VariableProjection& problem)
    : problem_(problem),
      x_(converted<T>(problem.x())),
      map_(std::as_const(x_).view(), problem.tokens(), problem.heads(), problem.threads()),
      p_(problem.rows() * problem.heads(), problem.tokens()),
      values_(problem.rows() * problem.heads(), problem.outputs()),
      values_t_(problem.rows() / problem.tokens() * problem.outputs(), problem.heads() * problem.tokens()),
      q_(problem.rows(), problem.heads() * problem.dim()) {}

template <class T>
void Tangent<T>::move_to(const Point& point) {
  convert<T>(point.p.view(), p_.view());
  convert<T>(point.values.view(), values_t_.view());
  untranspose_values<T>(point.values.view(), problem_.outputs(), values_.view());
  orthonormal_features(point, problem_.threads(), q_.view());
}

template <class T>
void Tangent<T>::derivative(MatrixView<const T> dtheta, MatrixView<T> z) const {
  map_.derivative(p_, values_, dtheta, z);
  problem_.weigh_rows(z);
}

template <class T>
void Tangent<T>::project(MatrixView<T> z) const {
  project_out<T>(problem_.ranks(), q_.view(), problem_.threads(), z);
}

template <class T>
void Tangent<T>::adjoint(MatrixView<const T> z, MatrixView<T> dtheta) const {
  map_.adjoint(p_, values_t_, z, dtheta);
  sum_over(problem_.ranks(), dtheta);
}

template class Tangent<float>;
template class Tangent<double>;

}  // namespace headlens::cpu

#include "cpu/layer/tied_problem.hpp"

#include "base/random.hpp"

namespace headlens::cpu {

void TiedCurvature::refresh(const TiedProblem& problem, const ActivationPoint&,
                            const TiedTangent<float>& tangent) {
  const TiedShape& shape = problem.map().shape();
  parts_ = {0, shape.k(0), shape.v(0), shape.columns()};
  Matrix<float> image(problem.rows(), problem.outputs());
  for (std::size_t part = 0; part < curvature_.size(); ++part) {
    Matrix<float> probe = Matrix<float>::zeros(shape.rows, shape.columns());
    Stream stream(0, "refit-curvature", part);
    for (Index i = 0; i < shape.rows; ++i)
      for (Index j = parts_[part]; j < parts_[part + 1]; ++j)
        probe(i, j) = stream.below(2) == 0 ? -1.0f : 1.0f;
    tangent.derivative(probe, image);
    tangent.project(image);
    curvature_[part] = inner(image, image) / inner(probe, probe);
  }
}

template <class T>
Matrix<T> TiedCurvature::apply(const Matrix<T>& a) const {
  Matrix<T> out(a.rows(), a.cols());
  for (std::size_t part = 0; part < curvature_.size(); ++part) {
    const double curvature = curvature_[part] + mu_;
    const T factor = static_cast<T>(curvature > 0 ? 1 / curvature : 1);
    for (Index i = 0; i < a.rows(); ++i)
      for (Index j = parts_[part]; j < parts_[part + 1]; ++j) out(i, j) = factor * a(i, j);
  }
  return out;
}

std::unique_ptr<backend::LinearModel> TiedProblem::make_linear_model() const {
  return std::make_unique<TangentModel<TiedProblem, ActivationPoint, TiedTangent, TiedCurvature>>(*this);
}

template Matrix<float> TiedCurvature::apply(const Matrix<float>&) const;
template Matrix<double> TiedCurvature::apply(const Matrix<double>&) const;

}  // namespace headlens::cpu

// The recovery problem of backend/layer_problem.hpp for a layer in factors, on the processor, for every map
// with
//
//   evaluate(parameters, z, p, phi),   derivative(z, p, dparameters, dphi),   adjoint(z, p, g, dparameters),
//
// where F = Phi O. O takes the place of W and is eliminated. Its linear model is J dp = dPhi O.
#pragma once

#include <memory>
#include <utility>

#include "cpu/layer/readout_problem.hpp"
#include "cpu/layer/sum_over.hpp"
#include "cpu/layer/tangent_model.hpp"
#include "linalg/multiply.hpp"

namespace headlens::cpu {

struct ActivationPoint final : ReadoutPoint {  // w = O
  using ReadoutPoint::ReadoutPoint;
  Matrix<double> z;  // (n k, columns) X parameters
  Matrix<double> p;  // (n m k, k)
};
inline ActivationPoint& as_activation_point(backend::LayerPoint& point) {
  return static_cast<ActivationPoint&>(point);
}
inline const ActivationPoint& as_activation_point(const backend::LayerPoint& point) {
  return static_cast<const ActivationPoint&>(point);
}

// Map: in double. The maps of the other precision come from map.converted().
template <class Map>
class ActivationProblem : public ReadoutProblem {
 public:
  ActivationProblem(const backend::LayerExamples& examples, Map map, int threads,
                    comm::Communicator& ranks = comm::serial())
      : ReadoutProblem(examples, threads, ranks), map_(std::move(map)) {}

  Index tokens() const final { return map_.tokens(); }
  Index heads() const final { return map_.heads(); }
  double unknowns() const final { return static_cast<double>(dim() * map_.columns()); }

  std::unique_ptr<backend::LayerPoint> make_point() const final {
    auto point = std::make_unique<ActivationPoint>(rows(), map_.features(), outputs(), ranks(), seen());
    point->z = map_.make_activations();
    point->p = map_.make_attention();
    return point;
  }
  void linearise(backend::LayerPoint&) const final {}  // evaluate() keeps all that derivatives need
  void gradient(const backend::LayerPoint& at, MatrixView<double> dp) const final {
    const ActivationPoint& point = as_activation_point(at);
    Matrix<double> g = map_.make_phi();
    multiply(Trans::no, Trans::yes, 1.0, point.residual.view(), point.w.view(), 0.0, g.view(), threads());
    map_.adjoint(point.z, point.p, g, dp);
    sum_over(ranks(), dp);
  }

  const Map& map() const { return map_; }

 private:
  void make_features(ReadoutPoint& at) const final {
    ActivationPoint& point = as_activation_point(at);
    map_.evaluate(point.parameters, point.z, point.p, point.phi);
  }

  Map map_;
};

// The derivative of the projected residual at one point, in the precision T: applied, never formed.
template <class T, template <class> class Map>
class ActivationTangent {
 public:
  using Problem = ActivationProblem<Map<double>>;
  explicit ActivationTangent(const Problem& problem)
      : problem_(problem),
        x_(converted<T>(problem.x())),
        map_(problem.map().converted(std::as_const(x_).view())),
        z_(map_.make_activations()),
        p_(map_.make_attention()),
        q_(map_.make_phi()),
        o_(map_.features(), problem.outputs()) {}

  void move_to(const ActivationPoint& point) {
    point_ = &point;
    convert<T>(point.z.view(), z_.view());
    convert<T>(point.p.view(), p_.view());
    convert<T>(point.w.view(), o_.view());
    orthonormal_features(point, problem_.threads(), q_.view());
  }
  void derivative(MatrixView<const T> dp, MatrixView<T> image) const {
    Matrix<T> dphi = map_.make_phi();
    map_.derivative(z_, p_, dp, dphi);
    multiply(Trans::no, Trans::no, T(1), std::as_const(dphi).view(), o_.view(), T(0), image,
             problem_.threads());
  }
  void project(MatrixView<T> image) const { project_seen<T>(*point_, q_.view(), problem_.threads(), image); }
  void adjoint(MatrixView<const T> image, MatrixView<T> dp) const {
    Matrix<T> g = map_.make_phi();
    multiply(Trans::no, Trans::yes, T(1), image, o_.view(), T(0), g.view(), problem_.threads());
    map_.adjoint(z_, p_, g, dp);
    sum_over(problem_.ranks(), dp);
  }
  const Problem& problem() const { return problem_; }
  MatrixView<const T> orthonormal() const { return q_.view(); }

 private:
  const Problem& problem_;
  Matrix<T> x_;
  Map<T> map_;
  Matrix<T> z_, p_, q_, o_;
  const ActivationPoint* point_ = nullptr;
};

}  // namespace headlens::cpu

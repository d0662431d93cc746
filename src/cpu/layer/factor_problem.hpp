// The recovery problem of backend/layer_problem.hpp in the factors Q, K and V, on the processor. O takes the
// place of W: O is eliminated.
#pragma once

#include <memory>

#include "cpu/layer/factor_map.hpp"
#include "cpu/layer/readout_problem.hpp"

namespace headlens::cpu {

struct FactorPoint final : ReadoutPoint {  // parameters (d, 2 a + b), w = O (b, e), phi (n k, b)
  using ReadoutPoint::ReadoutPoint;
  Matrix<double> z;  // (n k, 2 a + b) X parameters
  Matrix<double> p;  // (n m k, k)
};
inline FactorPoint& as_factor_point(backend::LayerPoint& point) { return static_cast<FactorPoint&>(point); }
inline const FactorPoint& as_factor_point(const backend::LayerPoint& point) {
  return static_cast<const FactorPoint&>(point);
}

class FactorProblem final : public ReadoutProblem {
 public:
  FactorProblem(const backend::LayerExamples& examples, backend::HeadRanks ranks, int threads);

  Index tokens() const override { return map_.tokens(); }
  Index heads() const override { return ranks_.heads(); }
  double unknowns() const override { return static_cast<double>(dim() * ranks_.parameter_columns()); }

  std::unique_ptr<backend::LayerPoint> make_point() const override;
  void linearise(backend::LayerPoint&) const override {}  // evaluate() keeps all that derivatives need
  void gradient(const backend::LayerPoint& point, MatrixView<double> dp) const override;
  std::unique_ptr<backend::LinearModel> make_linear_model() const override;

  const backend::HeadRanks& ranks() const { return ranks_; }

 private:
  void make_features(ReadoutPoint& point) const override;

  backend::HeadRanks ranks_;
  FactorMap<double> map_;
};

}  // namespace headlens::cpu

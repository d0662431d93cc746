// Where a solver in function space stands, as Newton's method and the path of the hinge both know it:
// F = K A + 1 b^T, |V|^2 = <A, K A>, P = L(F) + ridge |V|^2, and a certified bound on P - min P.
#pragma once

#include "fit/convex/newton.hpp"
#include "fit/convex/newton_system.hpp"

namespace headlens::training {

class DualIterate {
 protected:
  DualIterate(LossFunction loss, const BlockOperator& kernel, const NewtonOptions& options,
              const Execution& execution, double tolerance);

  MatrixView<double> view(Block& a) const { return {a.data(), n_, q_}; }
  MatrixView<const double> view(const Block& a) const { return {a.data(), n_, q_}; }
  double scale() const { return std::max(objective_, floor_); }

  void refresh();  // K A itself in place of a sum of updates
  void measure();  // |V|^2 and P of the scores
  NewtonSolution finish(FitStatus status) const;

  LossFunction loss_;
  CountedKernel kernel_;
  const NewtonOptions& options_;
  const Execution& execution_;
  double tolerance_;
  Index n_, q_;

  Block dual_, kernel_dual_, scores_;  // A, K A, F
  std::vector<double> intercept_;
  bool capped_ = false;   // see Intercept
  double norm_ = 0;       // |V|^2
  double objective_ = 0;  // P
  double floor_ = 0;      // least scale of the relative gap
  double gap_ = 0;
  int iterations_ = 0, steps_since_refresh_ = 0;
};

}  // namespace headlens::training

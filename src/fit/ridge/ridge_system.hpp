// The regularised normal equations without their matrix, for conjugate gradients:
//
//   dual     (K + shift) alpha = Y        primal     (G + shift) V = Phi^T Y
#pragma once

#include <vector>

#include "backend/backend.hpp"
#include "linalg/block_operator.hpp"
#include "linalg/cg.hpp"

namespace headlens::training {

class RidgeSystem {
 public:
  // weights: 1 for examples that are fitted, 0 for the others; none: all are. References are kept.
  RidgeSystem(backend::Design& design, MatrixView<const double> y, backend::Side side,
              std::vector<double> weights = {});

  Index size() const { return dual_ ? design_.rows() : design_.columns(); }
  bool dual() const { return dual_; }
  void apply(double shift, MatrixView<const double> in, MatrixView<double> out) const;
  Matrix<double> fitted(MatrixView<const double> unknowns) const;  // (n, q)
  Matrix<double> values(Matrix<double> unknowns) const;            // V

  // From `unknowns` on.
  CgResult solve(double shift, const BlockOperator& preconditioner, const CgOptions& options,
                 MatrixView<double> unknowns, const Execution& execution) const;

 private:
  Matrix<double> right_side() const;
  Matrix<double> weighted(Matrix<double> a) const;
  Matrix<double> weighted_copy(MatrixView<const double> a) const;

  backend::Design& design_;
  MatrixView<const double> y_;
  std::vector<double> weights_;
  bool dual_;
};

}  // namespace headlens::training

// A Gram matrix in double: summed exactly but for the rounding of the features.
#pragma once

#include "backend/backend.hpp"
#include "cpu/design/host_design.hpp"

namespace headlens::cpu {

// What a Gram matrix belongs to.
struct NormalEquations {
  backend::Side side = backend::Side::dual;
  bool intercept = true;
  MatrixView<const double> targets = {};  // Y, (n, q); none if only products are asked for
  Matrix<double> product = {};            // primal: Phi^T Y
  HostDesign* design = nullptr;           // primal: leave-one-out reads the features again

  bool dual() const { return side == backend::Side::dual; }
  MatrixView<const double> right_side() const { return dual() ? targets : product.view(); }
};

class ExactGram final : public backend::Gram {
 public:
  // matrix: the lower triangle is valid. epsilon: the rounding of the features.
  ExactGram(Matrix<double> matrix, NormalEquations equations, double epsilon,
            const backend::Context& context);

  Index size() const override { return matrix_.rows(); }
  double trace() const override;
  MatrixView<const double> right_side() const override { return equations_->right_side(); }
  void multiply(MatrixView<const double> in, MatrixView<double> out) const override;
  std::unique_ptr<backend::Gram> copy() const override;

  std::unique_ptr<backend::Factor> factor(double shift) override;
  std::optional<Matrix<double>> minimum_norm() override;
  std::unique_ptr<backend::ShiftPath> shift_path() override;

 private:
  Matrix<double> matrix_;
  std::shared_ptr<const NormalEquations> equations_;  // shared with the path
  double epsilon_;
  backend::Context context_;
};

}  // namespace headlens::cpu

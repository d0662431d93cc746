// A Gram matrix of the dual side over all ranks: n^2 / R numbers each. Cholesky and eigenvectors are
// ScaLAPACK's (pdpotrf, pdpotrs, pdsyevd); the penalties of a path come from the eigenvectors, K = U S U^T:
//
//   alpha = U (S + shift)^-1 U^T y      [A^-1]_ii = sum_k u_ik^2 / (s_k + shift)
//
// Cost of a factorisation: n^3 / 3 operations, of the eigenvectors about 9 n^3, over R ranks; each rank sends
// about n^2 log(R) / sqrt(R) numbers.
#pragma once

#include "backend/backend.hpp"
#include "distributed/cyclic_matrix.hpp"

namespace headlens::distributed {

class BlockCyclicGram final : public backend::Gram {
 public:
  // epsilon: the rounding of the features. The targets, (n, q) on every rank, outlive the Gram.
  BlockCyclicGram(CyclicMatrix matrix, MatrixView<const double> targets, bool intercept, double epsilon,
                  const backend::Context& context);

  Index size() const override { return matrix_.n; }
  double trace() const override { return trace_; }
  MatrixView<const double> right_side() const override { return targets_; }
  void multiply(MatrixView<const double> in, MatrixView<double> out) const override;
  std::unique_ptr<backend::Gram> copy() const override;
  std::unique_ptr<backend::Factor> factor(double shift) override;
  std::optional<Matrix<double>> minimum_norm() override;
  std::string_view path_method() const override { return "eigenvectors"; }
  std::unique_ptr<backend::ShiftPath> shift_path() override;

 private:
  CyclicMatrix matrix_;
  MatrixView<const double> targets_;
  bool intercept_;
  double epsilon_, trace_;
  backend::Context context_;
};

}  // namespace headlens::distributed

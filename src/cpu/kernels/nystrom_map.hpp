// Nystrom features over m centres z_j:
//
//   phi(x) = L^-1 (K(x, z_1), .., K(x, z_m)),   K(z, z) + jitter I = L L^T.
//
// A function with values V on them is sum_j a_j K(x, z_j) with a = L^-T V, and |V| is its norm in the space
// of the kernel, so any solver for features fits the best function of that form. If the centres are all
// training sets, that is the exact fit. The jitter, a few rounding errors of the trace, keeps repeated
// centres from stopping the factorisation. m^2 N^2 / 2 moments and m^3 / 3 flops; then m N^2 moments and m^2
// flops per set.
#pragma once

#include "cpu/features/feature_map.hpp"
#include "cpu/kernels/closed_form.hpp"

namespace headlens::cpu {

class NystromMap final : public FeatureMap<double> {
 public:
  // `options` with the scales filled in; the centres have their positions. Keeps a reference to them.
  NystromMap(const FeatureOptions& options, const Sets& centres, const Execution& execution);

  Index blocks() const override { return 1; }
  Index block_columns() const override { return factor_.rows(); }
  Index heads() const override { return factor_.rows(); }
  Index width() const override { return 1; }
  Index column_of(Index head, Index) const override { return head; }

  // begin: a multiple of 64, or of the tile of these sets.
  using FeatureMap<double>::compute;
  void compute(const Sets& sets, Index begin, Index end, Index block_begin, Index block_end,
               MatrixView<double> out, int threads) const override;

  MatrixView<const double> factor() const { return factor_; }  // L; its rows are the features of the centres
  Matrix<double> coefficients(MatrixView<const double> values) const;  // a = L^-T V

 private:
  FeatureOptions options_;
  ClosedFormKernel kernel_;
  TokenSource centres_;
  Matrix<double> factor_;
};

}  // namespace headlens::cpu

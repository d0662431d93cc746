// Which labels count, on the device, and the matrices M_c = I - Q_c^T Q_c that follow from it: the twin of
// what cpu/layer/readout.hpp says of missing labels. The inverses of M_c are formed, because every iteration
// of conjugate gradients multiplies by all of them.
#pragma once

#include <vector>

#include "cuda/layer/device_matrix.hpp"
#include "cuda/layer/variant_kernels.hpp"

namespace headlens::cuda {

class SeenLabels {
 public:
  // seen (n k, e) of 1 and 0, on the host; all labels where it has no rows.
  SeenLabels(MatrixView<const double> seen, int threads);

  bool all() const { return begins_.empty(); }
  // Sets what does not count to zero.
  template <class T>
  void hide(DeviceMatrix<T>& z) const {
    if (!all()) hide_unseen(seen_.data(), z.size(), z.data());
  }
  // cores (groups b, b): M_c^-1 of every group of outputs that miss the same rows, for orthonormal features q
  // (n k, b). false if labels are missing that determine a direction of the features.
  bool invert_cores(const DeviceMatrix<double>& q, DeviceMatrix<double>& cores) const;
  // c (b, e) = M_c^-1 c, output by output.
  template <class T>
  void solve(const DeviceMatrix<T>& cores, DeviceMatrix<T>& c) const;

 private:
  Index groups() const { return static_cast<Index>(begins_.size()) - 1; }

  DeviceMatrix<float> seen_;
  std::vector<Index> begins_;    // of the groups in missing_, and the end
  DeviceArray<Index> missing_;   // rows
  DeviceArray<Index> group_of_;  // (e)
};

}  // namespace headlens::cuda

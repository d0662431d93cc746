// Products of features with a few columns of values, in double. The lanes are summed apart over all columns
// and added up at the end, in a fixed order: neither the cut of the columns nor that of the sets matters.
#pragma once

#include <algorithm>

#include "cpu/features/rfa.hpp"
#include "linalg/matrix.hpp"

namespace headlens::cpu {

template <class T>
class LaneProducts {
 public:
  LaneProducts(SimdLevel level, Index sets, Index outputs)
      : function_(lane_product_function<T>(level)),
        sets_(sets),
        outputs_(outputs),
        sums_(sets * outputs * kLanes) {
    std::fill_n(sums_.data(), sums_.size(), 0.0);
  }

  // The next columns: phi (sets, columns) in rows of `stride`, values (outputs, columns).
  void add(const T* phi, Index stride, MatrixView<const double> values) {
    function_(sets_, phi, stride, values.cols, outputs_, values.data, values.stride, sums_.data());
  }

  void write(MatrixView<double> out) const {
    for (Index i = 0; i < sets_ * outputs_; ++i) {
      double sum = 0;
      for (Index lane = 0; lane < kLanes; ++lane) sum += sums_[i * kLanes + lane];
      out(i / outputs_, i % outputs_) = sum;
    }
  }

 private:
  LaneProductFunction<T> function_;
  Index sets_, outputs_;
  Buffer<double> sums_;  // (sets, outputs, kLanes)
};

}  // namespace headlens::cpu

// The set { r >= 0 : sum r <= k1, sum r^2 <= k2 } of group norms: projection and support function, O(groups)
// times the steps of a bisection. Either radius may be infinite.
//
// With S_t = max(0, z - t), the projection of z is one of: z; S_t at sum = k1; z scaled to sum of squares k2;
// or S_t / c with t such that |S_t|_1 / |S_t|_2 = k1 / sqrt(k2) (that ratio falls with t), c such that both
// hold. The support function is max <z, r> = min_{t >= 0} k1 t + sqrt(k2) |S_t|_2, least at the same ratio.
#pragma once

#include <vector>

#include "headlens/fit.hpp"
#include "linalg/matrix.hpp"

namespace headlens::training {

[[nodiscard]] std::vector<double> project_norms(const NormBall& ball, const std::vector<double>& norms);

// An upper bound on the support function, tight to rounding (every t gives a bound).
[[nodiscard]] double support_of_norms(const NormBall& ball, const std::vector<double>& norms);

// The rows of V by group; group -1 belongs to none.
class Groups {
 public:
  explicit Groups(std::vector<Index> group_of_row);

  [[nodiscard]] std::vector<double> norms(MatrixView<const double> v) const;
  void project(const NormBall& ball, MatrixView<double> v) const;  // rows in no group become 0

 private:
  std::vector<Index> group_of_row_;
  Index count_ = 0;
};

}  // namespace headlens::training

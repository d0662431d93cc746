// The linear systems of a Newton step in function space, where only K = Phi Phi^T can be applied (and may be
// singular). Both cost one application of K per iteration and return K x for free.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "headlens/execution.hpp"
#include "linalg/block_operator.hpp"

namespace headlens::training {

using Block = std::vector<double>;  // n x q, row-major

inline double inner(const Block& a, const Block& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}
inline void add_scaled(Block& a, double t, const Block& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += t * b[i];
}
std::vector<double> column_sums(const Block& a, std::size_t columns);
inline Matrix<double> as_matrix(const Block& a, Index columns) {
  Matrix<double> out(static_cast<Index>(a.size()) / columns, columns);
  std::copy(a.begin(), a.end(), out.data());
  return out;
}

// Applies K to blocks, counts, and asks whether to go on.
class CountedKernel {
 public:
  CountedKernel(const BlockOperator& kernel, Index rows, Index columns, const Execution& execution)
      : kernel_(kernel), rows_(rows), columns_(columns), execution_(execution) {}
  Block operator()(const Block& in);
  int applications() const { return applications_; }

 private:
  const BlockOperator& kernel_;
  Index rows_, columns_;
  const Execution& execution_;
  int applications_ = 0;
};

struct NewtonStep {
  Block dual, kernel_dual;        // x, K x
  std::vector<double> intercept;  // q
  bool at_radius = false;
};

// (C K + 2 ridge) x = r with C symmetric positive semidefinite, by conjugate gradients in the inner product
// <., K .>, where the operator is self-adjoint. Ends when <r, K r> <= enough, or when <x, K x> reaches
// radius^2 (Steihaug 1983: the norm of x grows from iteration to iteration, so this is a trust region).
// Leaves `intercept`.
struct CurvatureSystem {
  std::function<Block(const Block&)> curvature;  // C
  double ridge = 0;
  double enough = 0;
  double radius = std::numeric_limits<double>::infinity();
  int max_iterations = 1000;
};
[[nodiscard]] NewtonStep solve(const CurvatureSystem& system, CountedKernel& kernel, Block rhs,
                               Block kernel_rhs);

// (K + diag(w)) x + 1 b^T = r and, with an intercept, 1^T x = 0; columns do not interact and have their own
// step lengths. Projected conjugate gradients (Gould, Hribar & Nocedal 2001) preconditioned by diag(w) +
// kernel_scale: w may range over twenty orders of magnitude. Entries with w = 0 keep x = 0.
struct WeightedSystem {
  Block weights;            // w
  double kernel_scale = 0;  // the mean of K's diagonal, roughly
  std::size_t columns = 1;
  bool intercept = true;
  std::function<bool(const Block& residual)> enough;
  int max_iterations = 1000;
};
[[nodiscard]] NewtonStep solve(const WeightedSystem& system, CountedKernel& kernel, const Block& rhs);

}  // namespace headlens::training

// Linear programs, min c^T x over lower <= A x <= upper and column bounds, solved by COIN-OR Clp's simplex
// method.
//
// One program serves many objectives: the basis stays between solves, so the next one starts where the last
// one ended. The only file that calls Clp. Solves run on the calling thread; the outcome does not depend on
// anything but the arguments and the solves before.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "linalg/matrix.hpp"

namespace headlens {

enum class LpStatus { optimal, infeasible, unbounded, stalled };

struct [[nodiscard]] LpSolution {
  LpStatus status = LpStatus::stalled;
  double value = 0;
  std::vector<double> x;  // one per column

  bool ok() const { return status == LpStatus::optimal; }
};

class LinearProgram {
 public:
  struct Bounds {
    std::vector<double> lower, upper;  // infinities allowed
  };
  // Dense rows; rows.cols variables.
  LinearProgram(MatrixView<const double> rows, const Bounds& row_bounds, const Bounds& column_bounds);

  // `expired`, where given, is asked every few hundred pivots; true ends the solve as stalled.
  LpSolution minimise(const std::vector<double>& objective, const std::function<bool()>& expired = {});

 private:
  struct Model;
  struct Delete {
    void operator()(Model* model) const;
  };
  std::unique_ptr<Model, Delete> model_;
};

}  // namespace headlens

// The directions of the parameters that change no head. Without rotary positions there are none. With them,
// for every pair of columns one complex number: (q, -k) scales and (J q, J k) turns both, J (a, b) = (-b, a);
// and for the columns that are not turned (Q_0 A, -K_0 A^T) for every A. Held as an orthonormal basis, head
// by head.
#pragma once

#include <vector>

#include "attention/variant_map.hpp"

namespace headlens::recovery {

class VariantGauge {
 public:
  VariantGauge(const VariantShape& shape, const Matrix<double>& parameters);
  // The projection of a direction onto them.
  Matrix<double> part(MatrixView<const double> a) const;

 private:
  // A direction that is zero but for these columns.
  struct Direction {
    std::vector<Index> columns;
    Matrix<double> values;  // (d, columns)
  };
  void add(Direction direction, std::size_t own);
  std::vector<Direction> basis_;
};

}  // namespace headlens::recovery

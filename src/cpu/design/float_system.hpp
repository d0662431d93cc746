// The normal equations in float, summed from rounded features (cpu/products/rounded_gram.hpp).
#pragma once

#include <vector>

#include "backend/design.hpp"
#include "linalg/matrix.hpp"

namespace headlens::cpu {

template <class T>
class DesignMatrix;

struct FloatSystem {
  backend::Side side = backend::Side::dual;
  Index examples = 0;           // n, of all ranks
  std::vector<Index> unknowns;  // all examples, or the columns of Phi but for padding, which is zeros
  Matrix<float> gram;           // lower triangle
  Matrix<float> rhs;            // (q, size): Y^T or Y^T Phi; none without targets
  Matrix<float> left_out;       // a row per example left out: its unit vector, or its features

  bool dual() const { return side == backend::Side::dual; }
};

template <class T>
FloatSystem make_float_system(DesignMatrix<T>& design, const backend::GramRequest& request);

// Of a, the rows of `unknowns`, as columns; and the way back, zeros elsewhere.
Matrix<float> pick_transposed(MatrixView<const double> a, const std::vector<Index>& unknowns);
template <class T>
void put_transposed(MatrixView<const float> a, const std::vector<Index>& unknowns, MatrixView<T> out);

// A view of `a` itself, or a rounded copy in `buffer`.
MatrixView<const float> in_float(MatrixView<const float> a, Matrix<float>& buffer);
MatrixView<const float> in_float(MatrixView<const double> a, Matrix<float>& buffer);

}  // namespace headlens::cpu

// Products spread over threads on fixed tiles of the output.
#pragma once

#include <vector>

#include "linalg/blas.hpp"

namespace headlens {

// C = alpha op(A) op(B) + beta C, as gemm.  2 m n k flops.
void multiply(Trans trans_a, Trans trans_b, double alpha, MatrixView<const double> a,
              MatrixView<const double> b, double beta, MatrixView<double> c, int threads);
void multiply(Trans trans_a, Trans trans_b, float alpha, MatrixView<const float> a, MatrixView<const float> b,
              float beta, MatrixView<float> c, int threads);

// C = A^T B of each, for A and B with many rows. Where there are few tiles of C the rows are cut into parts
// as well, whose products are added in order.  2 m n k flops.
struct TallProduct {
  MatrixView<const float> a, b;
  MatrixView<float> c;
};
void multiply_tall(const std::vector<TallProduct>& all, int threads);

// Y = A X with A symmetric, stored in one triangle (diagonal included).  2 n^2 q flops.
void multiply_symmetric(Triangle stored, MatrixView<const double> a, MatrixView<const double> x,
                        MatrixView<double> y, int threads);
void multiply_symmetric(Triangle stored, MatrixView<const float> a, MatrixView<const float> x,
                        MatrixView<float> y, int threads);

}  // namespace headlens

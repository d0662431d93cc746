// BLAS on row-major views: one thread, checked shapes, empty shapes allowed. The caller cuts large work into
// fixed tiles and spreads the tiles over threads (multiply.hpp, gram.hpp, cholesky.hpp).
//
// op(A) is A or its transpose. A triangular or symmetric argument is read in its lower triangle unless it
// says otherwise; the rest of its square is neither read nor written. With beta = 0 the old C is not read.
#pragma once

#include "linalg/matrix.hpp"

namespace headlens {

enum class Trans { no, yes };
enum class Side { left, right };
enum class Triangle { lower, upper };

// OpenBLAS would otherwise start threads of its own. Every function below calls it; it acts once.
void use_one_blas_thread();

// Fortran's integer; throws Bug beyond 2^31.
int blas_int(Index value);

// C = alpha op(A) op(B) + beta C.  2 m n k flops. One row or column of C goes to gemv.
void gemm(Trans trans_a, Trans trans_b, double alpha, MatrixView<const double> a, MatrixView<const double> b,
          double beta, MatrixView<double> c);
void gemm(Trans trans_a, Trans trans_b, float alpha, MatrixView<const float> a, MatrixView<const float> b,
          float beta, MatrixView<float> c);
Matrix<double> product(Trans trans_a, Trans trans_b, MatrixView<const double> a,
                       MatrixView<const double> b);  // op(A) op(B)

// The lower triangle of C = alpha A A^T + beta C (Trans::no) or alpha A^T A + beta C (Trans::yes).
void syrk(Trans trans, double alpha, MatrixView<const double> a, double beta, MatrixView<double> c);
void syrk(Trans trans, float alpha, MatrixView<const float> a, float beta, MatrixView<float> c);

// The lower triangle of C = alpha (A B^T + B A^T) + beta C.
void syr2k(double alpha, MatrixView<const double> a, MatrixView<const double> b, double beta,
           MatrixView<double> c);
void syr2k(float alpha, MatrixView<const float> a, MatrixView<const float> b, float beta,
           MatrixView<float> c);

// C = alpha A B + beta C with A symmetric, stored in one triangle.
void symm(Triangle stored, double alpha, MatrixView<const double> a, MatrixView<const double> b, double beta,
          MatrixView<double> c);
void symm(Triangle stored, float alpha, MatrixView<const float> a, MatrixView<const float> b, float beta,
          MatrixView<float> c);

// B = op(L)^-1 B (Side::left) or B op(L)^-1 (Side::right). A zero on the diagonal gives infinities.
void trsm(Side side, Trans trans, MatrixView<const double> lower, MatrixView<double> b);
void trsm(Side side, Trans trans, MatrixView<const float> lower, MatrixView<float> b);

}  // namespace headlens

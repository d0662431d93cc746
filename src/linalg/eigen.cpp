#include "linalg/eigen.hpp"

#include <cmath>

#include "headlens/error.hpp"
#include "linalg/blas.hpp"
#include "linalg/lapack.hpp"

namespace headlens {

SymmetricEigen symmetric_eigen(MatrixView<const double> a) {
  // dsyevd's workspace of 1 + 6n + 2n^2 must fit 32 bits.
  ensure(a.rows == a.cols && a.rows <= 32000, "symmetric_eigen: (", a.rows, " x ", a.cols,
         "), expected a square of at most 32000");
  SymmetricEigen out;
  if (a.rows == 0) return out;
  out.vectors = Matrix<double>::zeros(a.rows, a.rows);
  for (Index i = 0; i < a.rows; ++i)
    for (Index j = 0; j <= i; ++j) {
      // dsyevd may not return from a NaN.
      if (!std::isfinite(a(i, j))) return {.status = EigenStatus::not_finite, .values = {}, .vectors = {}};
      out.vectors(i, j) = a(i, j);
    }
  use_one_blas_thread();
  const int n = blas_int(a.rows), work_size = 1 + 6 * n + 2 * n * n, integers = 3 + 5 * n;
  out.values.resize(static_cast<std::size_t>(n));
  Buffer<double> work(work_size);
  Buffer<int> integer_work(integers);
  int info = 0;
  dsyevd_("V", "U", &n, out.vectors.data(), &n, out.values.data(), work.data(), &work_size,
          integer_work.data(), &integers, &info, 1, 1);
  ensure(info >= 0, "dsyevd: argument ", -info);
  if (info > 0) return {.status = EigenStatus::not_converged, .values = {}, .vectors = {}};
  return out;
}

GeneralEigen general_eigen(MatrixView<const double> a) {
  ensure(a.rows == a.cols && a.rows <= 4096, "general_eigen: (", a.rows, " x ", a.cols,
         "), expected a square of at most 4096");
  GeneralEigen out;
  if (a.rows == 0) return out;
  Matrix<double> copy(a.rows, a.rows);
  for (Index i = 0; i < a.rows; ++i)
    for (Index j = 0; j < a.rows; ++j) {
      if (!std::isfinite(a(i, j))) return {.status = EigenStatus::not_finite, .values = {}, .vectors = {}};
      copy(i, j) = a(i, j);
    }
  use_one_blas_thread();
  const int n = blas_int(a.rows), work_size = 34 * n;
  out.values.resize(static_cast<std::size_t>(n));
  out.vectors = Matrix<double>(a.rows, a.rows);
  std::vector<double> imaginary(static_cast<std::size_t>(n));
  Buffer<double> work(work_size);
  int info = 0;
  // LAPACK sees A^T, whose left eigenvectors are the right ones of A.
  dgeev_("V", "N", &n, copy.data(), &n, out.values.data(), imaginary.data(), out.vectors.data(), &n, nullptr,
         &n, work.data(), &work_size, &info, 1, 1);
  ensure(info >= 0, "dgeev: argument ", -info);
  if (info > 0) return {.status = EigenStatus::not_converged, .values = {}, .vectors = {}};
  return out;
}

}  // namespace headlens

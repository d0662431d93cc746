#include "linalg/svd.hpp"

#include <algorithm>
#include <cmath>

#include "linalg/blas.hpp"
#include "linalg/lapack.hpp"

namespace headlens {

// A row-major matrix is the column-major transpose A^T = V S U^T, so LAPACK's left vectors are V^T here.
Svd svd(MatrixView<const double> a) {
  use_one_blas_thread();
  const Index r = std::min(a.rows, a.cols);
  Svd out{true, Matrix<double>(a.rows, r), std::vector<double>(static_cast<std::size_t>(r)),
          Matrix<double>(r, a.cols)};
  if (r == 0) return out;
  Matrix<double> copy(a.rows, a.cols);
  copy_rows(a, copy.view());
  for (Index i = 0; i < a.rows * a.cols; ++i) out.ok = out.ok && std::isfinite(copy.data()[i]);
  if (!out.ok) return out;
  const int m = blas_int(a.cols), n = blas_int(a.rows), rank = blas_int(r);
  std::vector<int> integers(static_cast<std::size_t>(8 * r));
  double size = 0;
  int info = 0, ask = -1;
  const auto call = [&](double* work, const int* length) {
    dgesdd_("S", &m, &n, copy.data(), &m, out.values.data(), out.right.data(), &m, out.left.data(), &rank,
            work, length, integers.data(), &info, 1);
  };
  call(&size, &ask);
  const int length = static_cast<int>(size);
  std::vector<double> work(static_cast<std::size_t>(length));
  call(work.data(), &length);
  out.ok = info == 0;
  return out;
}

}  // namespace headlens

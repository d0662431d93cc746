#include "linalg/blas.hpp"

#include <cblas.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "headlens/error.hpp"

namespace headlens {
namespace {

CBLAS_TRANSPOSE cblas(Trans trans) { return trans == Trans::no ? CblasNoTrans : CblasTrans; }
CBLAS_SIDE cblas(Side side) { return side == Side::left ? CblasLeft : CblasRight; }
CBLAS_UPLO cblas(Triangle triangle) { return triangle == Triangle::lower ? CblasLower : CblasUpper; }
Trans flipped(Trans trans) { return trans == Trans::no ? Trans::yes : Trans::no; }

template <class T>
int leading(MatrixView<T> view) {
  return blas_int(std::max<Index>({1, view.cols, view.stride}));
}

struct Shape {
  Index rows;
  Index cols;
};

template <class T>
Shape shape_of(Trans trans, MatrixView<T> view) {
  return trans == Trans::no ? Shape{view.rows, view.cols} : Shape{view.cols, view.rows};
}

// One name for the two precisions of each routine.
constexpr auto kRows = CblasRowMajor;
template <class... Args>
void call_gemm(double, Args... args) {
  cblas_dgemm(kRows, args...);
}
template <class... Args>
void call_gemm(float, Args... args) {
  cblas_sgemm(kRows, args...);
}
template <class... Args>
void call_gemv(double, Args... args) {
  cblas_dgemv(kRows, args...);
}
template <class... Args>
void call_gemv(float, Args... args) {
  cblas_sgemv(kRows, args...);
}
template <class... Args>
void call_syrk(double, Args... args) {
  cblas_dsyrk(kRows, args...);
}
template <class... Args>
void call_syrk(float, Args... args) {
  cblas_ssyrk(kRows, args...);
}
template <class... Args>
void call_syr2k(double, Args... args) {
  cblas_dsyr2k(kRows, args...);
}
template <class... Args>
void call_syr2k(float, Args... args) {
  cblas_ssyr2k(kRows, args...);
}
template <class... Args>
void call_symm(double, Args... args) {
  cblas_dsymm(kRows, args...);
}
template <class... Args>
void call_symm(float, Args... args) {
  cblas_ssymm(kRows, args...);
}
template <class... Args>
void call_trsm(double, Args... args) {
  cblas_dtrsm(kRows, args...);
}
template <class... Args>
void call_trsm(float, Args... args) {
  cblas_strsm(kRows, args...);
}
template <class... Args>
void call_trsv(double, Args... args) {
  cblas_dtrsv(kRows, args...);
}
template <class... Args>
void call_trsv(float, Args... args) {
  cblas_strsv(kRows, args...);
}

template <class T>
void scale(T beta, MatrixView<T> c) {
  for (Index i = 0; i < c.rows; ++i)
    for (Index j = 0; j < c.cols; ++j) c(i, j) = beta == T{0} ? T{0} : beta * c(i, j);
}

// y = alpha op(A) x + beta y on strided vectors.
template <class T>
void gemv(Trans trans, T alpha, MatrixView<const T> a, const T* x, Index x_step, T beta, T* y, Index y_step) {
  call_gemv(T{}, cblas(trans), blas_int(a.rows), blas_int(a.cols), alpha, a.data, leading(a), x,
            blas_int(std::max<Index>(1, x_step)), beta, y, blas_int(std::max<Index>(1, y_step)));
}

template <class T>
void gemm_of(Trans trans_a, Trans trans_b, T alpha, MatrixView<const T> a, MatrixView<const T> b, T beta,
             MatrixView<T> c) {
  const Shape sa = shape_of(trans_a, a), sb = shape_of(trans_b, b);
  ensure(sa.cols == sb.rows && sa.rows == c.rows && sb.cols == c.cols, "gemm: (", sa.rows, " x ", sa.cols,
         ") times (", sb.rows, " x ", sb.cols, ") into (", c.rows, " x ", c.cols, ")");
  if (c.rows == 0 || c.cols == 0) return;
  if (sa.cols == 0) return scale(beta, c);
  use_one_blas_thread();
  if (c.cols == 1)
    return gemv(trans_a, alpha, a, b.data, trans_b == Trans::no ? b.stride : 1, beta, c.data, c.stride);
  if (c.rows == 1)
    return gemv(flipped(trans_b), alpha, b, a.data, trans_a == Trans::no ? 1 : a.stride, beta, c.data,
                Index{1});
  call_gemm(T{}, cblas(trans_a), cblas(trans_b), blas_int(c.rows), blas_int(c.cols), blas_int(sa.cols), alpha,
            a.data, leading(a), b.data, leading(b), beta, c.data, leading(c));
}

template <class T>
void syrk_of(Trans trans, T alpha, MatrixView<const T> a, T beta, MatrixView<T> c) {
  const Shape s = shape_of(trans, a);
  ensure(c.rows == c.cols && c.rows == s.rows, "syrk: (", s.rows, " x ", s.cols, ") into (", c.rows, " x ",
         c.cols, ")");
  if (c.rows == 0) return;
  use_one_blas_thread();
  call_syrk(T{}, CblasLower, cblas(trans), blas_int(c.rows), blas_int(s.cols), alpha, a.data, leading(a),
            beta, c.data, leading(c));
}

template <class T>
void syr2k_of(T alpha, MatrixView<const T> a, MatrixView<const T> b, T beta, MatrixView<T> c) {
  ensure(c.rows == c.cols && c.rows == a.rows && a.rows == b.rows && a.cols == b.cols, "syr2k: (", a.rows,
         " x ", a.cols, ") and (", b.rows, " x ", b.cols, ") into (", c.rows, " x ", c.cols, ")");
  if (c.rows == 0) return;
  use_one_blas_thread();
  call_syr2k(T{}, CblasLower, CblasNoTrans, blas_int(c.rows), blas_int(a.cols), alpha, a.data, leading(a),
             b.data, leading(b), beta, c.data, leading(c));
}

template <class T>
void symm_of(Triangle stored, T alpha, MatrixView<const T> a, MatrixView<const T> b, T beta,
             MatrixView<T> c) {
  ensure(a.rows == a.cols && a.rows == b.rows && b.rows == c.rows && b.cols == c.cols, "symm: (", a.rows,
         " x ", a.cols, ") times (", b.rows, " x ", b.cols, ") into (", c.rows, " x ", c.cols, ")");
  if (c.rows == 0 || c.cols == 0) return;
  use_one_blas_thread();
  call_symm(T{}, CblasLeft, cblas(stored), blas_int(c.rows), blas_int(c.cols), alpha, a.data, leading(a),
            b.data, leading(b), beta, c.data, leading(c));
}

template <class T>
void trsm_of(Side side, Trans trans, MatrixView<const T> lower, MatrixView<T> b) {
  ensure(lower.rows == lower.cols && lower.rows == (side == Side::left ? b.rows : b.cols), "trsm: triangle (",
         lower.rows, " x ", lower.cols, "), right-hand sides (", b.rows, " x ", b.cols, ")");
  if (b.rows == 0 || b.cols == 0) return;
  use_one_blas_thread();
  const int n = blas_int(lower.rows);
  if (side == Side::left && b.cols == 1)
    return call_trsv(T{}, CblasLower, cblas(trans), CblasNonUnit, n, lower.data, leading(lower), b.data,
                     leading(b));
  if (side == Side::right && b.rows == 1)
    return call_trsv(T{}, CblasLower, cblas(flipped(trans)), CblasNonUnit, n, lower.data, leading(lower),
                     b.data, 1);
  call_trsm(T{}, cblas(side), CblasLower, cblas(trans), CblasNonUnit, blas_int(b.rows), blas_int(b.cols),
            T{1}, lower.data, leading(lower), b.data, leading(b));
}

}  // namespace

void use_one_blas_thread() { [[maybe_unused]] static const bool once = (openblas_set_num_threads(1), true); }

int blas_int(Index value) {
  ensure(value >= 0 && value <= INT_MAX, "blas: size ", value, " does not fit 32 bits");
  return static_cast<int>(value);
}

void gemm(Trans trans_a, Trans trans_b, double alpha, MatrixView<const double> a, MatrixView<const double> b,
          double beta, MatrixView<double> c) {
  gemm_of(trans_a, trans_b, alpha, a, b, beta, c);
}
void gemm(Trans trans_a, Trans trans_b, float alpha, MatrixView<const float> a, MatrixView<const float> b,
          float beta, MatrixView<float> c) {
  gemm_of(trans_a, trans_b, alpha, a, b, beta, c);
}
Matrix<double> product(Trans trans_a, Trans trans_b, MatrixView<const double> a, MatrixView<const double> b) {
  Matrix<double> out(shape_of(trans_a, a).rows, shape_of(trans_b, b).cols);
  gemm(trans_a, trans_b, 1.0, a, b, 0.0, out.view());
  return out;
}

void syrk(Trans trans, double alpha, MatrixView<const double> a, double beta, MatrixView<double> c) {
  syrk_of(trans, alpha, a, beta, c);
}
void syrk(Trans trans, float alpha, MatrixView<const float> a, float beta, MatrixView<float> c) {
  syrk_of(trans, alpha, a, beta, c);
}

void syr2k(double alpha, MatrixView<const double> a, MatrixView<const double> b, double beta,
           MatrixView<double> c) {
  syr2k_of(alpha, a, b, beta, c);
}
void syr2k(float alpha, MatrixView<const float> a, MatrixView<const float> b, float beta,
           MatrixView<float> c) {
  syr2k_of(alpha, a, b, beta, c);
}

void symm(Triangle stored, double alpha, MatrixView<const double> a, MatrixView<const double> b, double beta,
          MatrixView<double> c) {
  symm_of(stored, alpha, a, b, beta, c);
}
void symm(Triangle stored, float alpha, MatrixView<const float> a, MatrixView<const float> b, float beta,
          MatrixView<float> c) {
  symm_of(stored, alpha, a, b, beta, c);
}

void trsm(Side side, Trans trans, MatrixView<const double> lower, MatrixView<double> b) {
  trsm_of(side, trans, lower, b);
}
void trsm(Side side, Trans trans, MatrixView<const float> lower, MatrixView<float> b) {
  trsm_of(side, trans, lower, b);
}

}  // namespace headlens

#include "linalg/qr.hpp"

#include <utility>

#include "headlens/error.hpp"
#include "linalg/blas.hpp"
#include "linalg/lapack.hpp"

namespace headlens {
namespace {

constexpr int kBlock = 64;  // LAPACK's largest: workspace for blocked reflections

}  // namespace

// A row-major (n, p) is A^T column-major, and A^T = L Q^T is an LQ factorisation.
TallQr::TallQr(Matrix<double> a) : a_(std::move(a)), scales_(static_cast<std::size_t>(a_.cols())) {
  ensure(a_.rows() >= a_.cols(), "TallQr: (", a_.rows(), " x ", a_.cols(),
         "), expected at least as many rows");
  if (a_.cols() == 0) return;
  use_one_blas_thread();
  const int p = blas_int(a_.cols()), n = blas_int(a_.rows()), size = kBlock * p;
  Buffer<double> work(size);
  int info = 0;
  dgelqf_(&p, &n, a_.data(), &p, scales_.data(), work.data(), &size, &info);
  ensure(info == 0, "dgelqf: argument ", -info);
}

Matrix<double> TallQr::factor() const {
  const Index p = a_.cols();
  Matrix<double> out = Matrix<double>::zeros(p, p);
  for (Index i = 0; i < p; ++i)
    for (Index j = 0; j <= i; ++j) out(i, j) = a_(j, i);
  return out;
}

void TallQr::rotate(MatrixView<double> b) const {
  ensure(b.rows == a_.rows() && b.stride == b.cols, "TallQr: ", b.rows, " rows to rotate, expected ",
         a_.rows());
  if (a_.cols() == 0 || b.cols == 0) return;
  use_one_blas_thread();
  // dormlq calls its argument constant, but sets the diagonal to one for a moment: threads need copies of
  // their own.
  Matrix<double> reflectors(a_.rows(), a_.cols());
  copy_rows(a_, reflectors);
  const int q = blas_int(b.cols), n = blas_int(b.rows), p = blas_int(a_.cols());
  const int size = kBlock * q + (kBlock + 1) * kBlock;  // and the triangular factor of a block
  Buffer<double> work(size);
  int info = 0;
  dormlq_("R", "T", &q, &n, &p, reflectors.data(), &p, scales_.data(), b.data, &q, work.data(), &size, &info,
          1, 1);
  ensure(info == 0, "dormlq: argument ", -info);
}

}  // namespace headlens

#include "linalg/band.hpp"

#include <algorithm>
#include <cmath>

#include "base/parallel.hpp"
#include "headlens/error.hpp"
#include "linalg/blas.hpp"
#include "linalg/block_reflector.hpp"
#include "linalg/lapack.hpp"
#include "linalg/multiply.hpp"
#include "linalg/tiles.hpp"

namespace headlens {
namespace {

constexpr Index kRowTile = 256;
constexpr Index kPanelsPerReflector = 4;
constexpr Index b = kBandWidth;

void geqrt3(const int* m, const int* n, double* a, const int* lda, double* t, const int* ldt, int* info) {
  dgeqrt3_(m, n, a, lda, t, ldt, info);
}
void geqrt3(const int* m, const int* n, float* a, const int* lda, float* t, const int* ldt, int* info) {
  sgeqrt3_(m, n, a, lda, t, ldt, info);
}

// One reduction in progress. xvx_ has rows [X | V | X], so that X V^T + V X^T is the one product [X V] [V
// X]^T of two of its parts; V and W are also kept without gaps, which the product A V needs to run at full
// speed.
template <class T>
class Reducer {
 public:
  Reducer(MatrixView<T> a, MatrixView<T> band, int threads)
      : a_(a), band_(band), threads_(threads), v_(a.rows, b), w_(a.rows, b), xvx_(a.rows, 3 * b) {}

  // Reduces columns j .. j + b, which must leave more than b rows below; returns T.
  Matrix<T> reduce_panel(Index j) {
    const Index m = a_.rows - j - b;
    const auto rest = a_.block(j + b, j + b, m, m);
    keep_diagonal(j);
    Matrix<T> t = factor_panel(j, m);
    multiply_symmetric(Triangle::lower, rest, first_rows(v_, m), first_rows(w_, m), threads_);
    make_x(t, m);
    update(rest);
    return t;
  }

  // What is left is already block tridiagonal.
  void keep_tail(Index j) {
    const Index n = a_.rows;
    keep_diagonal(j);
    if (n - j <= b) return;
    copy_rows(a_.block(j + b, j, n - j - b, b), band_.block(j + b, 0, n - j - b, b));
    keep_diagonal(j + b);
  }

 private:
  static MatrixView<T> first_rows(Matrix<T>& a, Index m) { return a.view().block(0, 0, m, a.cols()); }

  void keep_diagonal(Index j) {
    const Index size = std::min(b, a_.rows - j);
    copy_rows(a_.block(j, j, size, size), band_.block(j, b, size, size));
  }

  // QR of A[j + b.., j..] in a column-major copy. R goes to the band; V, with its ones and zeros, to A and to
  // work.
  Matrix<T> factor_panel(Index j, Index m) {
    const MatrixView<T> columns(w_.data(), b, m);
    const auto below = a_.block(j + b, j, m, b);
    for (Index i = 0; i < m; ++i)
      for (Index c = 0; c < b; ++c) columns(c, i) = below(i, c);
    auto t_columns = Matrix<T>::zeros(b, b);
    use_one_blas_thread();
    const int rows = blas_int(m), width = blas_int(b);
    int info = 0;
    geqrt3(&rows, &width, columns.data, &rows, t_columns.data(), &width, &info);
    ensure(info == 0, "geqrt3: argument ", -info);
    for (Index i = 0; i < m; ++i)
      for (Index c = 0; c < b; ++c) below(i, c) = v_(i, c) = i > c ? columns(c, i) : (i == c ? T{1} : T{0});
    Matrix<T> t(b, b);
    for (Index i = 0; i < b; ++i)
      for (Index c = 0; c < b; ++c) {
        t(i, c) = t_columns(c, i);
        band_(j + b + i, c) = c >= i ? columns(c, i) : T{0};
      }
    return t;
  }

  // Fills xvx_ with X = W T - V S / 2, S = T^T (V^T W) T.
  void make_x(const Matrix<T>& t, Index m) {
    Matrix<T> vw(b, b), vwt(b, b), s(b, b);
    gemm(Trans::yes, Trans::no, T{1}, first_rows(v_, m), first_rows(w_, m), T{0}, vw);
    gemm(Trans::no, Trans::no, T{1}, vw, t, T{0}, vwt);
    gemm(Trans::yes, Trans::no, T{1}, t, vwt, T{0}, s);
    parallel_for(threads_for(4.0 * double(m) * b * b, threads_), tile_count(m, kRowTile),
                 [&](Index item, int) {
                   const Tile i = tile_at(m, kRowTile, item);
                   const auto out = xvx_.view().block(i.begin, 0, i.size, 3 * b);
                   const auto x = out.block(0, 0, i.size, b);
                   const auto v = v_.view().block(i.begin, 0, i.size, b);
                   gemm(Trans::no, Trans::no, T{1}, w_.view().block(i.begin, 0, i.size, b), t, T{0}, x);
                   gemm(Trans::no, Trans::no, T(-0.5), v, s, T{1}, x);
                   copy_rows(v, out.block(0, b, i.size, b));
                   copy_rows(x, out.block(0, 2 * b, i.size, b));
                 });
  }

  // rest -= X V^T + V X^T, lower triangle
  void update(MatrixView<T> rest) {
    const Index m = rest.rows, tile = square_tile(m);
    const double flops = 2.0 * double(m) * double(m) * b;
    parallel_for(threads_for(flops, threads_), lower_tile_count(tile_count(m, tile)), [&](Index item, int) {
      const TilePair pair = lower_tile(item);
      const Tile i = tile_at(m, tile, pair.row), j = tile_at(m, tile, pair.col);
      const auto out = rest.block(i.begin, j.begin, i.size, j.size);
      const auto left = xvx_.view().block(i.begin, 0, i.size, 3 * b);
      if (pair.row == pair.col)
        syr2k(T{-1}, left.block(0, 0, i.size, b), left.block(0, b, i.size, b), T{1}, out);
      else
        gemm(Trans::no, Trans::yes, T{-1}, left.block(0, 0, i.size, 2 * b),
             xvx_.view().block(j.begin, b, j.size, 2 * b), T{1}, out);
    });
  }

  MatrixView<T> a_;
  MatrixView<T> band_;
  int threads_;
  Matrix<T> v_;
  Matrix<T> w_;  // W = A V; before that, the panel column by column
  Matrix<T> xvx_;
};

}  // namespace

template <class T>
BandReduction<T> BandReduction<T>::reduce(Matrix<T> a, int threads,
                                          const std::function<void(double)>& progress) {
  const Index n = a.rows();
  ensure(a.cols() == n, "band: (", n, " x ", a.cols(), ") is not square");
  BandReduction out;
  out.band_ = Matrix<T>::zeros(n, 2 * b);
  out.reflectors_ = std::move(a);
  if (n == 0) return out;
  Reducer<T> reducer(out.reflectors_, out.band_, threads);
  const Index panels = std::max<Index>(0, out.block_count() - 2);
  std::vector<Matrix<T>> t;
  for (Index p = 0; p < panels; ++p) {
    t.push_back(reducer.reduce_panel(p * b));
    if (progress) progress(1.0 - std::pow(1.0 - double(p + 1) * double(b) / double(n), 3));
  }
  reducer.keep_tail(panels * b);
  out.q_.resize(static_cast<std::size_t>(tile_count(panels, kPanelsPerReflector)));
  parallel_for(threads_for(double(n) * double(n) * 2 * b, threads), Index(out.q_.size()),
               [&](Index g, int) { out.q_[std::size_t(g)] = out.join_panels(g * kPanelsPerReflector, t); });
  return out;
}

// The blocks above each V inside the joined V belonged to the band, which has been copied: they become zero.
template <class T>
typename BandReduction<T>::Reflector BandReduction<T>::join_panels(Index first,
                                                                   const std::vector<Matrix<T>>& t) {
  const Index end = std::min(first + kPanelsPerReflector, Index(t.size())), n = size();
  Reflector out{(first + 1) * b, first * b, Matrix<T>(b, b)};
  copy_rows(t[std::size_t(first)], out.t);
  for (Index p = first + 1; p < end; ++p) {
    for (Index i = out.begin; i < (p + 1) * b; ++i) std::fill_n(&reflectors_(i, p * b), b, T{0});
    const auto v = reflectors_.view().block((p + 1) * b, out.column, n - (p + 1) * b, (p + 1 - first) * b);
    out.t = join_reflectors<T>(v, out.t, t[std::size_t(p)]);
  }
  return out;
}

template <class T>
MatrixView<const T> BandReduction<T>::v(const Reflector& r) const {
  return reflectors_.view().block(r.begin, r.column, size() - r.begin, r.t.rows());
}

template <class T>
MatrixView<const T> BandReduction<T>::diagonal(Index k) const {
  const Tile i = tile_at(size(), b, k);
  return band_.view().block(i.begin, b, i.size, i.size);
}

template <class T>
MatrixView<const T> BandReduction<T>::coupling(Index k) const {
  const Tile i = tile_at(size(), b, k);
  return band_.view().block(i.begin, 0, i.size, b);
}

template <class T>
void BandReduction<T>::to_band_basis(MatrixView<T> rows, int threads) const {
  ensure(rows.cols == size(), "band: rows have ", rows.cols, " columns, the matrix has ", size());
  const double flops = 2.0 * double(rows.rows) * double(size()) * double(size());
  parallel_for(threads_for(flops, threads), tile_count(rows.rows, kRowTile), [&](Index item, int) {
    const Tile i = tile_at(rows.rows, kRowTile, item);
    for (const Reflector& r : q_)
      reflect_rows<T>(v(r), r.t, Trans::no, rows.block(i.begin, r.begin, i.size, size() - r.begin));
  });
}

template <class T>
void BandReduction<T>::from_band_basis(MatrixView<T> rows, int threads) const {
  ensure(rows.cols == size(), "band: rows have ", rows.cols, " columns, the matrix has ", size());
  const double flops = 2.0 * double(rows.rows) * double(size()) * double(size());
  parallel_for(threads_for(flops, threads), tile_count(rows.rows, kRowTile), [&](Index item, int) {
    const Tile i = tile_at(rows.rows, kRowTile, item);
    for (auto r = q_.rbegin(); r != q_.rend(); ++r)
      reflect_rows<T>(v(*r), r->t, Trans::yes, rows.block(i.begin, r->begin, i.size, size() - r->begin));
  });
}

// From the last reflector to the first, so that each one meets only the columns it can reach.
template <class T>
Matrix<T> BandReduction<T>::basis(int threads) const {
  const Index n = size();
  auto q = Matrix<T>::zeros(n, n);
  for (Index i = 0; i < n; ++i) q(i, i) = T{1};
  for (auto r = q_.rbegin(); r != q_.rend(); ++r) {
    const Index m = n - r->begin, tile = square_tile(m);
    const double flops = 4.0 * double(m) * double(m) * double(r->t.rows());
    parallel_for(threads_for(flops, threads), tile_count(m, tile), [&](Index item, int) {
      const Tile j = tile_at(m, tile, item);
      reflect_columns<T>(v(*r), r->t, q.view().block(r->begin, r->begin + j.begin, m, j.size));
    });
  }
  return q;
}

template class BandReduction<float>;
template class BandReduction<double>;

}  // namespace headlens

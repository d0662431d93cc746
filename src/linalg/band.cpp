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

// One reduction in progress. xvx_ has rows [X | V | X], so that X V^T + V X^T is the one product [X V] [V
// X]^T of two of its parts; V and W are also kept without gaps, which the product A V needs to run at full
// speed.
class Reducer {
 public:
  Reducer(MatrixView<double> a, MatrixView<double> band, int threads)
      : a_(a), band_(band), threads_(threads), v_(a.rows, b), w_(a.rows, b), xvx_(a.rows, 3 * b) {}

  // Reduces columns j .. j + b, which must leave more than b rows below; returns T.
  Matrix<double> reduce_panel(Index j) {
    const Index m = a_.rows - j - b;
    const auto rest = a_.block(j + b, j + b, m, m);
    keep_diagonal(j);
    Matrix<double> t = factor_panel(j, m);
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
  static MatrixView<double> first_rows(Matrix<double>& a, Index m) {
    return a.view().block(0, 0, m, a.cols());
  }

  void keep_diagonal(Index j) {
    const Index size = std::min(b, a_.rows - j);
    copy_rows(a_.block(j, j, size, size), band_.block(j, b, size, size));
  }

  // QR of A[j + b.., j..] in a column-major copy. R goes to the band; V, with its ones and zeros, to A and to
  // work.
  Matrix<double> factor_panel(Index j, Index m) {
    const MatrixView<double> columns(w_.data(), b, m);
    const auto below = a_.block(j + b, j, m, b);
    for (Index i = 0; i < m; ++i)
      for (Index c = 0; c < b; ++c) columns(c, i) = below(i, c);
    auto t_columns = Matrix<double>::zeros(b, b);
    use_one_blas_thread();
    const int rows = blas_int(m), width = blas_int(b);
    int info = 0;
    dgeqrt3_(&rows, &width, columns.data, &rows, t_columns.data(), &width, &info);
    ensure(info == 0, "dgeqrt3: argument ", -info);
    for (Index i = 0; i < m; ++i)
      for (Index c = 0; c < b; ++c) below(i, c) = v_(i, c) = i > c ? columns(c, i) : (i == c ? 1.0 : 0.0);
    Matrix<double> t(b, b);
    for (Index i = 0; i < b; ++i)
      for (Index c = 0; c < b; ++c) {
        t(i, c) = t_columns(c, i);
        band_(j + b + i, c) = c >= i ? columns(c, i) : 0.0;
      }
    return t;
  }

  // Fills xvx_ with X = W T - V S / 2, S = T^T (V^T W) T.
  void make_x(const Matrix<double>& t, Index m) {
    Matrix<double> vw(b, b), vwt(b, b), s(b, b);
    gemm(Trans::yes, Trans::no, 1.0, first_rows(v_, m), first_rows(w_, m), 0.0, vw);
    gemm(Trans::no, Trans::no, 1.0, vw, t, 0.0, vwt);
    gemm(Trans::yes, Trans::no, 1.0, t, vwt, 0.0, s);
    parallel_for(threads_for(4.0 * double(m) * b * b, threads_), tile_count(m, kRowTile),
                 [&](Index item, int) {
                   const Tile i = tile_at(m, kRowTile, item);
                   const auto out = xvx_.view().block(i.begin, 0, i.size, 3 * b);
                   const auto x = out.block(0, 0, i.size, b);
                   const auto v = v_.view().block(i.begin, 0, i.size, b);
                   gemm(Trans::no, Trans::no, 1.0, w_.view().block(i.begin, 0, i.size, b), t, 0.0, x);
                   gemm(Trans::no, Trans::no, -0.5, v, s, 1.0, x);
                   copy_rows(v, out.block(0, b, i.size, b));
                   copy_rows(x, out.block(0, 2 * b, i.size, b));
                 });
  }

  // rest -= X V^T + V X^T, lower triangle
  void update(MatrixView<double> rest) {
    const Index m = rest.rows, tile = square_tile(m);
    const double flops = 2.0 * double(m) * double(m) * b;
    parallel_for(threads_for(flops, threads_), lower_tile_count(tile_count(m, tile)), [&](Index item, int) {
      const TilePair pair = lower_tile(item);
      const Tile i = tile_at(m, tile, pair.row), j = tile_at(m, tile, pair.col);
      const auto out = rest.block(i.begin, j.begin, i.size, j.size);
      const auto left = xvx_.view().block(i.begin, 0, i.size, 3 * b);
      if (pair.row == pair.col)
        syr2k(-1.0, left.block(0, 0, i.size, b), left.block(0, b, i.size, b), 1.0, out);
      else
        gemm(Trans::no, Trans::yes, -1.0, left.block(0, 0, i.size, 2 * b),
             xvx_.view().block(j.begin, b, j.size, 2 * b), 1.0, out);
    });
  }

  MatrixView<double> a_;
  MatrixView<double> band_;
  int threads_;
  Matrix<double> v_;
  Matrix<double> w_;  // W = A V; before that, the panel column by column
  Matrix<double> xvx_;
};

}  // namespace

BandReduction BandReduction::reduce(Matrix<double> a, int threads,
                                    const std::function<void(double)>& progress) {
  const Index n = a.rows();
  ensure(a.cols() == n, "band: (", n, " x ", a.cols(), ") is not square");
  BandReduction out;
  out.band_ = Matrix<double>::zeros(n, 2 * b);
  out.reflectors_ = std::move(a);
  if (n == 0) return out;
  Reducer reducer(out.reflectors_, out.band_, threads);
  const Index panels = std::max<Index>(0, out.block_count() - 2);
  std::vector<Matrix<double>> t;
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
BandReduction::Reflector BandReduction::join_panels(Index first, const std::vector<Matrix<double>>& t) {
  const Index end = std::min(first + kPanelsPerReflector, Index(t.size())), n = size();
  Reflector out{(first + 1) * b, first * b, Matrix<double>(b, b)};
  copy_rows(t[std::size_t(first)], out.t);
  for (Index p = first + 1; p < end; ++p) {
    for (Index i = out.begin; i < (p + 1) * b; ++i) std::fill_n(&reflectors_(i, p * b), b, 0.0);
    const auto v = reflectors_.view().block((p + 1) * b, out.column, n - (p + 1) * b, (p + 1 - first) * b);
    out.t = join_reflectors(v, out.t, t[std::size_t(p)]);
  }
  return out;
}

MatrixView<const double> BandReduction::v(const Reflector& r) const {
  return reflectors_.view().block(r.begin, r.column, size() - r.begin, r.t.rows());
}

MatrixView<const double> BandReduction::diagonal(Index k) const {
  const Tile i = tile_at(size(), b, k);
  return band_.view().block(i.begin, b, i.size, i.size);
}

MatrixView<const double> BandReduction::coupling(Index k) const {
  const Tile i = tile_at(size(), b, k);
  return band_.view().block(i.begin, 0, i.size, b);
}

void BandReduction::to_band_basis(MatrixView<double> rows, int threads) const {
  ensure(rows.cols == size(), "band: rows have ", rows.cols, " columns, the matrix has ", size());
  const double flops = 2.0 * double(rows.rows) * double(size()) * double(size());
  parallel_for(threads_for(flops, threads), tile_count(rows.rows, kRowTile), [&](Index item, int) {
    const Tile i = tile_at(rows.rows, kRowTile, item);
    for (const Reflector& r : q_)
      reflect_rows(v(r), r.t, Trans::no, rows.block(i.begin, r.begin, i.size, size() - r.begin));
  });
}

void BandReduction::from_band_basis(MatrixView<double> rows, int threads) const {
  ensure(rows.cols == size(), "band: rows have ", rows.cols, " columns, the matrix has ", size());
  const double flops = 2.0 * double(rows.rows) * double(size()) * double(size());
  parallel_for(threads_for(flops, threads), tile_count(rows.rows, kRowTile), [&](Index item, int) {
    const Tile i = tile_at(rows.rows, kRowTile, item);
    for (auto r = q_.rbegin(); r != q_.rend(); ++r)
      reflect_rows(v(*r), r->t, Trans::yes, rows.block(i.begin, r->begin, i.size, size() - r->begin));
  });
}

// From the last reflector to the first, so that each one meets only the columns it can reach.
Matrix<double> BandReduction::basis(int threads) const {
  const Index n = size();
  auto q = Matrix<double>::zeros(n, n);
  for (Index i = 0; i < n; ++i) q(i, i) = 1.0;
  for (auto r = q_.rbegin(); r != q_.rend(); ++r) {
    const Index m = n - r->begin, tile = square_tile(m);
    const double flops = 4.0 * double(m) * double(m) * double(r->t.rows());
    parallel_for(threads_for(flops, threads), tile_count(m, tile), [&](Index item, int) {
      const Tile j = tile_at(m, tile, item);
      reflect_columns(v(*r), r->t, q.view().block(r->begin, r->begin + j.begin, m, j.size));
    });
  }
  return q;
}

}  // namespace headlens

#include "linalg/orthonormalise.hpp"

#include "base/parallel.hpp"
#include "linalg/blas.hpp"
#include "linalg/gram.hpp"
#include "linalg/tiles.hpp"

namespace headlens {
namespace {

constexpr Index kRowTile = 512;

}  // namespace

void solve_rows(MatrixView<const double> lower, MatrixView<double> rows, int threads) {
  const double flops = double(rows.rows) * double(rows.cols) * double(rows.cols);
  parallel_for(threads_for(flops, threads), tile_count(rows.rows, kRowTile), [&](Index item, int) {
    const Tile i = tile_at(rows.rows, kRowTile, item);
    trsm(Side::right, Trans::yes, lower, rows.block(i.begin, 0, i.size, rows.cols));
  });
}

CholeskyResult orthonormalise_columns(MatrixView<double> a, int threads) {
  for (int pass = 0; pass < 2; ++pass) {
    auto gram = Matrix<double>::zeros(a.cols, a.cols);
    add_inner(a, gram, threads);
    const CholeskyResult result = cholesky(gram, threads);
    if (!result.ok()) return result;
    solve_rows(gram, a, threads);
  }
  return {};
}

}  // namespace headlens

#include "cpu/kernels/nystrom_map.hpp"

#include <algorithm>
#include <limits>

#include "base/parallel.hpp"
#include "headlens/error.hpp"
#include "linalg/blas.hpp"
#include "linalg/cholesky.hpp"
#include "linalg/orthonormalise.hpp"

namespace headlens::cpu {
namespace {

// L of K + jitter I, zeros above the diagonal. `fill` writes K.
template <class Fill>
Matrix<double> factorise(Index size, int threads, Fill&& fill) {
  Matrix<double> k(size, size);
  for (double jitter = 10 * std::numeric_limits<double>::epsilon(); jitter < 1; jitter *= 10) {
    fill(k);
    double trace = 0;
    for (Index i = 0; i < size; ++i) trace += k(i, i);
    // A kernel that is zero, as that of weight scale 0, has the factor I: any will do.
    for (Index i = 0; i < size; ++i) k(i, i) += trace > 0 ? jitter * trace : 1.0;
    if (!cholesky(k.view(), threads).ok()) continue;
    for (Index i = 0; i < size; ++i) std::fill(k.view().row(i) + i + 1, k.view().row(i) + size, 0.0);
    return k;
  }
  throw Bug("headlens bug: the kernel of the centres is not positive semi-definite");
}

}  // namespace

NystromMap::NystromMap(const FeatureOptions& options, const Sets& centres, const Execution& execution)
    : options_(options),
      kernel_(options, false),
      centres_(centres, options.kind, Positions::none, options.precision),
      factor_(factorise(centres.count(), thread_count(execution), [&](Matrix<double>& k) {
        kernel_.compute_symmetric(centres_, k.view(), execution);
      })) {}

void NystromMap::compute(const Sets& sets, Index begin, Index end, Index block_begin, Index block_end,
                         MatrixView<double> out, int threads) const {
  ensure(block_begin == 0 && block_end == 1, "nystrom: the features come all at once");
  const TokenSource source(sets, options_.kind, options_.positions, options_.precision);
  kernel_.compute(source, begin, end, centres_, out, {.threads = threads});
  solve_rows(factor_, out, threads);
}

Matrix<double> NystromMap::coefficients(MatrixView<const double> values) const {
  Matrix<double> out(values.rows, values.cols);
  copy_rows(values, out);
  trsm(Side::left, Trans::yes, factor_, out);
  return out;
}

}  // namespace headlens::cpu

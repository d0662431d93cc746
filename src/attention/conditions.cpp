#include "headlens/conditions.hpp"

#include <algorithm>
#include <cmath>

#include "attention/magnitude.hpp"
#include "headlens/error.hpp"
#include "linalg/blas.hpp"
#include "linalg/eigen.hpp"

namespace headlens {
namespace {

constexpr double kZero = 1e-16;  // of the largest eigenvalue of A A^T, times the size: rounding

// From the eigenvalues of A A^T or A^T A, the smaller; entries are divided by the largest first.
Spectrum spectrum_of(const double* entries, Index rows, Index cols) {
  Spectrum out{.full = std::min(rows, cols)};
  double unit = 0;
  for (Index j = 0; j < rows * cols; ++j) unit = std::max(unit, std::abs(entries[j]));
  if (unit == 0) return out;
  const bool wide = rows <= cols;
  Matrix<double> a(out.full, std::max(rows, cols)), gram = Matrix<double>::zeros(out.full, out.full);
  for (Index i = 0; i < rows; ++i)
    for (Index j = 0; j < cols; ++j) (wide ? a(i, j) : a(j, i)) = entries[i * cols + j] / unit;
  syrk(Trans::no, 1.0, a.view(), 0.0, gram.view());
  const SymmetricEigen eigen = symmetric_eigen(gram);
  ensure(eigen.ok(), "inspect: no eigenvalues of a finite ", out.full, " x ", out.full, " matrix");
  const double floor = static_cast<double>(out.full) * kZero * eigen.values.back();
  const auto first = std::upper_bound(eigen.values.begin(), eigen.values.end(), floor);
  out.rank = static_cast<Index>(eigen.values.end() - first);
  out.on_range = std::sqrt(eigen.values.back() / *first);
  if (out.rank == out.full) out.condition = out.on_range;
  return out;
}

}  // namespace

Conditions layer_conditions(const AttentionLayer& layer, const Execution& execution) {
  require_plain(layer, "the test of conditions");
  const Index d = layer.dim(), e = layer.outputs();
  Conditions out;
  std::vector<double> sum(static_cast<std::size_t>(d * e), 0.0);  // of all W, in units of the largest
  const double unit = std::ldexp(1.0, -exponent_of(layer.w.data<double>(), layer.w.size()));
  for (Index i = 0; i < layer.heads(); ++i) {
    execution.check_cancelled();
    execution.report("conditions", static_cast<double>(i), static_cast<double>(layer.heads()));
    const double* w = layer.w.data<double>() + i * d * e;
    for (Index j = 0; j < d * e; ++j) sum[static_cast<std::size_t>(j)] += w[j] * unit;
    const double cosine = summarise_head(layer, i).identity_cosine;
    out.per_head.push_back({spectrum_of(w, d, e),
                            spectrum_of(layer.theta.data<double>() + i * d * d, d, d).rank, cosine * cosine});
  }
  out.sum = spectrum_of(sum.data(), d, e);
  return out;
}

}  // namespace headlens

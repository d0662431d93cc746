#include "fit/infinite_heads.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>

#include "base/parallel.hpp"
#include "base/random.hpp"
#include "fit/convex.hpp"
#include "fit/design_matrix.hpp"
#include "fit/ridge.hpp"
#include "fit/ridge_path.hpp"
#include "fit/trained_model.hpp"
#include "headlens/error.hpp"
#include "kernels/nystrom_map.hpp"
#include "kernels/support.hpp"
#include "linalg/cholesky.hpp"
#include "linalg/gram.hpp"
#include "linalg/multiply.hpp"

namespace headlens {
namespace {

// K of the training sets, lower triangle; its column means, and K centred if there is an intercept.
struct CentredKernel {
  Matrix<double> gram;
  std::vector<double> means;
};

CentredKernel centred_kernel(const Problem& problem, const Execution& execution) {
  const FeatureOptions& f = problem.options.features;
  const Index n = problem.count();
  const TokenSource source(problem.sets, f.kind, f.positions, f.precision);
  CentredKernel out{Matrix<double>(n, n), std::vector<double>(static_cast<std::size_t>(n), 0.0)};
  ClosedFormKernel(f, false).compute_symmetric(source, out.gram.view(), execution);
  require_finite_squares(trace(out.gram), problem.sets);
  if (!problem.options.intercept) return out;
  const int threads = thread_count(execution);
  parallel_for(threads, n, [&](Index i, int) {
    double& mean = out.means[static_cast<std::size_t>(i)];
    for (Index j = 0; j < n; ++j) mean += out.gram(i, j);
    mean /= static_cast<double>(n);
  });
  const double all = std::accumulate(out.means.begin(), out.means.end(), 0.0) / static_cast<double>(n);
  parallel_for(threads, n, [&](Index i, int) {
    const double mean = out.means[static_cast<std::size_t>(i)];
    for (Index j = 0; j <= i; ++j) out.gram(i, j) -= mean + out.means[static_cast<std::size_t>(j)] - all;
  });
  return out;
}

// The coefficients of centred y sum to zero; what they do not is rounding.
void centre_columns(MatrixView<double> a) {
  for (Index c = 0; c < a.cols; ++c) {
    double mean = 0;
    for (Index i = 0; i < a.rows; ++i) mean += a(i, c) / static_cast<double>(a.rows);
    for (Index i = 0; i < a.rows; ++i) a(i, c) -= mean;
  }
}

// sum over columns of a^T K b
double inner(MatrixView<const double> a, MatrixView<const double> kb) {
  double sum = 0;
  for (Index i = 0; i < a.rows; ++i)
    for (Index c = 0; c < a.cols; ++c) sum += a(i, c) * kb(i, c);
  return sum;
}

// The training error, and the norm of the gradient Phi^T r, r = (K alpha - y) / n + ridge alpha, over that of
// Phi^T y / n.
void measure(MatrixView<const double> kernel, MatrixView<const double> y, MatrixView<const double> alpha,
             FitReport& report, int threads) {
  const Index n = y.rows, q = y.cols;
  Matrix<double> both(n, 2 * q), products(n, 2 * q);
  Matrix<double> fitted(n, q);
  multiply_symmetric(Triangle::lower, kernel, alpha, fitted, threads);
  double squares = 0;
  for (Index i = 0; i < n; ++i)
    for (Index c = 0; c < q; ++c) {
      const double residual = fitted(i, c) - y(i, c);
      squares += residual * residual;
      both(i, c) = residual / static_cast<double>(n) + report.ridge * alpha(i, c);
      both(i, q + c) = y(i, c) / static_cast<double>(n);
    }
  report.train_loss = squares / static_cast<double>(n * q);
  multiply_symmetric(Triangle::lower, kernel, both, products, threads);
  const auto norm = [&](Index first) {
    return std::sqrt(
        std::max(0.0, inner(both.view().block(0, first, n, q), products.view().block(0, first, n, q))));
  };
  double scale = norm(q);
  // Where K y is itself rounding, errors count beside |K| |y| instead.
  if (norm(0) > residual_limit(sizeof(double)) * scale)
    scale = std::max(scale, 1e-6 * std::sqrt(trace(kernel) * inner(y, y)) / static_cast<double>(n));
  report.residual = scale > 0 ? norm(0) / scale : 0.0;
  if (report.residual > residual_limit(sizeof(double))) report.status = FitStatus::stalled;
}

std::vector<Index> all_sets(Index count) {
  std::vector<Index> out(static_cast<std::size_t>(count));
  std::iota(out.begin(), out.end(), Index{0});
  return out;
}

// `count` different sets, in increasing order.
std::vector<Index> draw_centres(Index sets, Index count, std::uint64_t seed) {
  std::vector<Index> order = all_sets(sets);
  Stream stream(seed, "centres");
  for (Index i = 0; i < count; ++i)
    std::swap(order[static_cast<std::size_t>(i)],
              order[static_cast<std::size_t>(i) + stream.below(static_cast<std::uint64_t>(sets - i))]);
  order.resize(static_cast<std::size_t>(count));
  std::sort(order.begin(), order.end());
  return order;
}

Fit fit_exactly(const Problem& problem, const Execution& execution) {
  const int threads = thread_count(execution);
  FitReport report;
  report.solver = Solver::dual;
  report.ridge = problem.options.ridge.value_or(0);
  std::vector<double> offset;
  const Matrix<double> y = centre_targets(problem, offset);
  Support support = make_support(problem.sets, all_sets(problem.count()), problem.options.features);
  Matrix<double> alpha = Matrix<double>::zeros(problem.count(), problem.outputs);
  if (!are_constant(y, problem, report)) {
    const CentredKernel kernel = centred_kernel(problem, execution);
    Matrix<double> gram(problem.count(), problem.count());
    copy_rows(kernel.gram, gram);
    Coefficients found = solve_gram(
        std::move(gram), y, problem, std::numeric_limits<double>::epsilon(), "kernel ", threads, report,
        [&](Matrix<double> k) { return dual_path(std::move(k), y, problem.options, threads, execution); });
    report.status = found.status;
    if (found.status != FitStatus::not_positive_definite) {
      alpha = std::move(found.values);
      if (problem.options.intercept) centre_columns(alpha);
      measure(kernel.gram, y, alpha, report, threads);
      for (Index i = 0; i < alpha.rows(); ++i)
        for (Index c = 0; c < alpha.cols(); ++c)
          offset[static_cast<std::size_t>(c)] -= kernel.means[static_cast<std::size_t>(i)] * alpha(i, c);
    }
  }
  return {kernel_model(problem, std::move(support), alpha, offset, report), report};
}

// Falkon's preconditioner: the covariance of the features, estimated from the centres, whose features are the
// rows of the factor. (n/m) sum_j (l_j - mean)(l_j - mean)^T + shift, by Cholesky.
BlockOperator falkon(const NystromMap& map, const std::vector<double>& means, Index count, double shift,
                     int threads) {
  const Index m = map.columns();
  const double scale = std::sqrt(static_cast<double>(count) / static_cast<double>(m));
  auto factor = std::make_shared<Matrix<double>>(Matrix<double>::zeros(m, m));
  constexpr Index kRows = 256;
  Matrix<double> rows(kRows, m);
  for (Index first = 0; first < m; first += kRows) {
    const Index size = std::min(kRows, m - first);
    for (Index i = 0; i < size; ++i)
      for (Index j = 0; j < m; ++j)
        rows(i, j) = scale * (map.factor()(first + i, j) - means[static_cast<std::size_t>(j)]);
    add_inner(rows.view().block(0, 0, size, m), factor->view(), threads);
  }
  for (Index i = 0; i < m; ++i) (*factor)(i, i) += shift;
  const bool ok = cholesky(factor->view(), threads).ok();
  return [factor, ok, threads](MatrixView<const double> in, MatrixView<double> out) {
    copy_rows(in, out);
    if (ok) cholesky_solve(*factor, out, threads);  // else none: a shift that is lost in rounding
  };
}

Fit fit_centres(const Problem& problem, const Plan& plan, const Execution& execution) {
  const FitOptions& options = problem.options;
  Support support = make_support(
      problem.sets, draw_centres(problem.count(), plan.centres, options.features.seed), options.features);
  const Sets centres = sets_of(support);
  const NystromMap map(options.features, centres, execution);
  DesignMatrix<double> design(map, problem.sets, options.intercept,
                              options.block_sets > 0 ? options.block_sets : kRowTile, execution);
  if (plan.cache_features) design.cache();
  Solution solution =
      problem.is_squared_ridge()
          ? solve_ridge(design, problem, plan, execution,
                        [&](double shift) {
                          return falkon(map, design.means(), problem.count(), shift, design.threads());
                        })
          : solve_convex(design, map, problem, plan, execution);
  solution.report.method = join("Nystrom with ", plan.centres, " centres, ", solution.report.method);
  std::vector<double> offset = solution.offset;
  Matrix<double> values = Matrix<double>::zeros(plan.centres, problem.outputs);
  if (solution.report.status != FitStatus::not_positive_definite) {
    for (Index j = 0; j < values.rows(); ++j)
      for (Index c = 0; c < values.cols(); ++c)
        offset[static_cast<std::size_t>(c)] -=
            design.means()[static_cast<std::size_t>(j)] * solution.values(j, c);
    values = map.coefficients(solution.values);
  }
  return {kernel_model(problem, std::move(support), values, offset, solution.report), solution.report};
}

}  // namespace

Fit fit_infinite_heads(const Problem& problem, const Plan& plan, const Execution& execution) {
  return plan.centres == 0 ? fit_exactly(problem, execution) : fit_centres(problem, plan, execution);
}

}  // namespace headlens

#include "fit/ridge.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fit/iterative.hpp"
#include "fit/ridge_path.hpp"
#include "fit/single_path.hpp"
#include "headlens/error.hpp"
#include "linalg/blas.hpp"
#include "linalg/eigen.hpp"
#include "linalg/gram.hpp"
#include "linalg/regularised.hpp"

namespace headlens {
namespace {

constexpr int kRefinements = 20;  // each should win a digit or more

// Of the normal equations: what rounding of the features leaves.
constexpr double refined_residual(std::size_t item_bytes) { return item_bytes == 4 ? 1e-7 : 1e-12; }

Coefficients by_cholesky(Matrix<double> gram, double shift, MatrixView<const double> rhs, int threads) {
  Coefficients out{FitStatus::solved, Matrix<double>::zeros(rhs.rows, rhs.cols)};
  const RegularisedSolve solve = solve_regularised(gram, shift, rhs, out.values, threads);
  if (!solve.ok()) out.status = FitStatus::not_positive_definite;
  return out;
}

// sum over eigenvalues above rounding of u u^T rhs / sigma: the minimum-norm solution as ridge -> 0.
// Eigenvalues below size * epsilon * largest, epsilon that of the features, are rounding: rows that repeat,
// or directions that no feature has.
Coefficients by_eigenvectors(Matrix<double> gram, double epsilon, MatrixView<const double> rhs) {
  Coefficients out{FitStatus::solved, Matrix<double>::zeros(rhs.rows, rhs.cols)};
  const SymmetricEigen eigen = symmetric_eigen(gram);
  if (!eigen.ok()) return {FitStatus::not_positive_definite, {}};
  const Index size = gram.rows();
  const double cutoff = static_cast<double>(size) * epsilon * eigen.values.back();
  Matrix<double> inner(size, rhs.cols);
  gemm(Trans::no, Trans::no, 1.0, eigen.vectors, rhs, 0.0, inner);
  for (Index k = 0; k < size; ++k)
    for (Index c = 0; c < rhs.cols; ++c) {
      const double sigma = eigen.values[static_cast<std::size_t>(k)];
      inner(k, c) = sigma > cutoff ? inner(k, c) / sigma : 0.0;
    }
  gemm(Trans::yes, Trans::no, 1.0, eigen.vectors, inner, 0.0, out.values);
  return out;
}

bool all_zero(MatrixView<const double> y) {
  for (Index i = 0; i < y.rows; ++i)
    for (Index c = 0; c < y.cols; ++c)
      if (y(i, c) != 0) return false;
  return true;
}

double norm(MatrixView<const double> a) {
  double sum = 0;
  for (Index i = 0; i < a.rows; ++i)
    for (Index j = 0; j < a.cols; ++j) sum += a(i, j) * a(i, j);
  return std::sqrt(sum);
}

// Fills in the training error and |Phi^T (Phi V - Y) / n + ridge V| / |Phi^T Y / n|, in one pass.
template <class T>
void measure(DesignMatrix<T>& design, MatrixView<const double> y, Solution& solution) {
  const Index p = design.columns(), q = y.cols;
  const auto n = static_cast<double>(y.rows);
  Matrix<double> gradient = Matrix<double>::zeros(p, q), product = Matrix<double>::zeros(p, q);
  double squares = 0;
  design.for_row_blocks("check", [&](Index first, MatrixView<const T> block) {
    Matrix<double> residual = Matrix<double>::zeros(block.rows, q);
    add_product<T>(block, solution.values, residual, design.threads());
    for (Index i = 0; i < block.rows; ++i)
      for (Index c = 0; c < q; ++c) {
        residual(i, c) -= y(first + i, c);
        squares += residual(i, c) * residual(i, c);
      }
    add_transposed_product<T>(block, residual, gradient, design.threads());
    add_transposed_product<T>(block, y.block(first, 0, block.rows, q), product, design.threads());
  });
  solution.report.train_loss = squares / (n * static_cast<double>(q));
  for (Index j = 0; j < p; ++j)
    for (Index c = 0; c < q; ++c) {
      gradient(j, c) = gradient(j, c) / n + solution.report.ridge * solution.values(j, c);
      product(j, c) /= n;
    }
  const double error = norm(gradient);
  double scale = norm(product);
  // Where Phi^T Y is itself rounding (no feature varies with Y), errors count beside |Phi| |Y| instead.
  if (error > residual_limit(sizeof(T)) * scale)
    scale = std::max(scale, 1e-6 * std::sqrt(design.mean_square_row() / n) * norm(y));
  solution.report.residual = scale > 0 ? error / scale : 0.0;
}

// Coefficients in double from an inverse in float; false if it does not carry that far.
template <class T>
bool refine(DesignMatrix<T>& design, bool dual, MatrixView<const double> y, double ridge,
            const BlockOperator& inverse, Solution& solution, const Execution& execution) {
  if (!inverse) return false;
  Matrix<double> unknowns = Matrix<double>::zeros(dual ? design.rows() : design.columns(), y.cols);
  const CgResult cg = solve_shifted(design, y, dual, ridge * static_cast<double>(y.rows), inverse,
                                    {refined_residual(sizeof(T)), kRefinements}, unknowns, execution);
  // Slow refinement means that float has lost the shift, and with it the errors that were compared.
  if (!cg.ok() && cg.relative_residual > 1e3 * refined_residual(sizeof(T))) return false;
  solution.report.ridge = ridge;
  solution.report.iterations = cg.iterations;
  solution.values = dual ? design.adjoint(unknowns, "values") : std::move(unknowns);
  return true;
}

// A penalty given, or chosen in float, and coefficients refined in double.
template <class T>
bool solve_in_single(DesignMatrix<T>& design, const Problem& problem, bool dual, MatrixView<const double> y,
                     Solution& solution, const Execution& execution) {
  const std::string side = dual ? "dual " : "primal ";
  const auto n = static_cast<double>(y.rows);
  FitReport& report = solution.report;
  if (const auto ridge = problem.options.ridge) {
    const BlockOperator inverse = single_inverse(design, dual, n * *ridge, y);
    if (!refine(design, dual, y, *ridge, inverse, solution, execution)) return false;
    report.ridge_rule = "given";
    report.method = side + "Cholesky in single precision, refined";
    return true;
  }
  const std::optional<SinglePath> path = single_path(design, dual, y, problem.options, execution);
  if (!path) return false;
  const BlockOperator inverse = path->inverse(n * path->ridge, design.threads());
  if (!refine(design, dual, y, path->ridge, inverse, solution, execution)) return false;
  report.trials = path->trials;
  report.ridge_rule =
      y.rows > kLeftOut ? join("leave-one-out, from ", kLeftOut, " examples") : "leave-one-out";
  report.method = side + "band reduction in single precision, refined";
  return true;
}

template <class T>
void solve_direct(DesignMatrix<T>& design, const Problem& problem, Solver solver, MatrixView<const double> y,
                  Solution& solution, const Execution& execution) {
  FitReport& report = solution.report;
  const bool dual = solver == Solver::dual;
  const bool large = (dual ? design.rows() : design.columns()) >= kSingleFrom;
  const bool minimum_norm = problem.options.ridge && *problem.options.ridge == 0;
  if (large && !minimum_norm && solve_in_single(design, problem, dual, y, solution, execution)) return;
  PrimalSystem system = dual ? PrimalSystem{dual_gram(design), {}} : primal_system(design, y);
  const MatrixView<const double> rhs = dual ? y : system.rhs.view();
  Coefficients found = solve_gram(
      std::move(system.gram), rhs, problem, std::numeric_limits<T>::epsilon(), dual ? "dual " : "primal ",
      design.threads(), report, [&](Matrix<double> gram) {
        if (dual) return dual_path(std::move(gram), y, problem.options, design.threads(), execution);
        return primal_path(design, {std::move(gram), std::move(system.rhs)}, y, problem.options, execution);
      });
  report.status = found.status;
  if (report.status == FitStatus::not_positive_definite) return;
  solution.values = dual ? design.adjoint(found.values, "values") : std::move(found.values);
}

}  // namespace

Matrix<double> centre_targets(const Problem& problem, std::vector<double>& offset) {
  const Index n = problem.count(), q = problem.outputs;
  Matrix<double> y(n, q);
  offset.assign(static_cast<std::size_t>(q), 0.0);
  for (Index c = 0; c < q; ++c) {
    double mean = 0, low = problem.targets(0, c), high = low;
    for (Index i = 0; i < n; ++i) {
      const double value = problem.targets(i, c);
      mean += value / static_cast<double>(n);
      low = std::min(low, value);
      high = std::max(high, value);
    }
    const double centre = !problem.options.intercept ? 0.0 : low == high ? low : mean;
    offset[static_cast<std::size_t>(c)] = centre;
    for (Index i = 0; i < n; ++i) y(i, c) = problem.targets(i, c) - centre;
  }
  return y;
}

bool are_constant(MatrixView<const double> y, const Problem& problem, FitReport& report) {
  if (!all_zero(y)) return false;
  report.method = "constant targets";
  report.ridge_rule = problem.options.ridge ? "given" : "constant targets";
  return true;
}

Coefficients solve_gram(Matrix<double> gram, MatrixView<const double> rhs, const Problem& problem,
                        double epsilon, const std::string& side, int threads, FitReport& report,
                        const std::function<RidgePath(Matrix<double>)>& path) {
  if (!problem.options.ridge) {
    RidgePath chosen = path(std::move(gram));
    report.ridge = chosen.ridge;
    report.ridge_rule = "leave-one-out";
    report.method = side + "band reduction";
    report.trials = std::move(chosen.trials);
    return {chosen.status, std::move(chosen.coefficients)};
  }
  if (*problem.options.ridge > 0) {
    report.ridge_rule = "given";
    report.method = side + "Cholesky";
    return by_cholesky(std::move(gram), static_cast<double>(problem.count()) * report.ridge, rhs, threads);
  }
  report.ridge_rule = "minimum norm";
  report.method = side + "eigenvectors";
  return by_eigenvectors(std::move(gram), epsilon, rhs);
}

double trace(MatrixView<const double> matrix) {
  double sum = 0;
  for (Index i = 0; i < matrix.rows; ++i) sum += matrix(i, i);
  return sum;
}

template <class T>
Matrix<double> dual_gram(DesignMatrix<T>& design) {
  Matrix<double> gram = Matrix<double>::zeros(design.rows(), design.rows());
  design.for_column_chunks(
      "gram", [&](Index, MatrixView<const T> chunk) { add_outer(chunk, gram, design.threads()); });
  require_finite_squares(trace(gram), design.sets());
  return gram;
}

template <class T>
PrimalSystem primal_system(DesignMatrix<T>& design, MatrixView<const double> y) {
  PrimalSystem system{Matrix<double>::zeros(design.columns(), design.columns()), {}};
  design.for_row_blocks("gram", [&](Index, MatrixView<const T> block) {
    // Whole row tiles, so that the sum is the same whatever the block size.
    for (Index i = 0; i < block.rows; i += kRowTile)
      add_inner(block.block(i, 0, std::min(kRowTile, block.rows - i), block.cols), system.gram,
                design.threads());
  });
  require_finite_squares(trace(system.gram), design.sets());
  system.rhs = design.adjoint(y, "gram");
  return system;
}

template <class T>
Solution solve_ridge(DesignMatrix<T>& design, const Problem& problem, const Plan& plan,
                     const Execution& execution, const PreconditionerAt& preconditioner) {
  Solution solution;
  const Matrix<double> y = centre_targets(problem, solution.offset);
  solution.report.solver = plan.solver;
  solution.report.ridge = problem.options.ridge.value_or(0);
  solution.values = Matrix<double>::zeros(design.columns(), problem.outputs);
  if (are_constant(y, problem, solution.report)) {
    design.means();
    return solution;
  }
  if (plan.solver == Solver::iterative)
    solve_iterative(design, problem, plan, y, solution, execution, preconditioner);
  else
    solve_direct(design, problem, plan.solver, y, solution, execution);
  if (solution.report.status == FitStatus::not_positive_definite) return solution;
  measure(design, y, solution);
  if (solution.report.residual > residual_limit(sizeof(T))) solution.report.status = FitStatus::stalled;
  return solution;
}

template Matrix<double> dual_gram(DesignMatrix<float>&);
template Matrix<double> dual_gram(DesignMatrix<double>&);
template PrimalSystem primal_system(DesignMatrix<float>&, MatrixView<const double>);
template PrimalSystem primal_system(DesignMatrix<double>&, MatrixView<const double>);
template Solution solve_ridge(DesignMatrix<float>&, const Problem&, const Plan&, const Execution&,
                              const PreconditionerAt&);
template Solution solve_ridge(DesignMatrix<double>&, const Problem&, const Plan&, const Execution&,
                              const PreconditionerAt&);

}  // namespace headlens

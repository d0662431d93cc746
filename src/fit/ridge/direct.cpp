#include "fit/ridge/direct.hpp"

#include <cmath>

#include "fit/penalties.hpp"
#include "fit/ridge/path_search.hpp"

namespace headlens::training {
namespace {

std::optional<Matrix<double>> solve(backend::Factor* factor, MatrixView<const double> rhs) {
  if (!factor) return std::nullopt;
  Matrix<double> out = Matrix<double>::zeros(rhs.rows, rhs.cols);
  factor->solve(rhs, out);
  return out;
}

std::optional<Matrix<double>> choose_penalty(backend::Gram& gram, const Problem& problem, FitReport& report) {
  const auto n = static_cast<double>(problem.count());
  const std::vector<double> ridges =
      ridge_grid(gram.trace() / n, problem.count(), problem.options.features.precision);
  const auto path = gram.shift_path();
  report.trials = try_penalties(*path, ridges, problem.count()).trials;
  report.ridge_rule += search_words(*path);
  const RidgeTrial best = report.trials[static_cast<std::size_t>(best_trial(report.trials))];
  if (!std::isfinite(best.error)) return std::nullopt;
  report.ridge = best.ridge;
  return solve(path->factor(best.ridge * n).get(), gram.right_side());
}

}  // namespace

std::optional<Matrix<double>> solve_gram(backend::Gram& gram, backend::Method method, const Problem& problem,
                                         const std::string& side, FitReport& report) {
  if (method == backend::Method::path) {
    report.ridge_rule = "leave-one-out";
    report.method = side + std::string(gram.path_method());
    return choose_penalty(gram, problem, report);
  }
  if (method == backend::Method::cholesky) {
    report.ridge_rule = "given";
    report.method = side + "Cholesky";
    return solve(gram.factor(static_cast<double>(problem.count()) * report.ridge).get(), gram.right_side());
  }
  report.ridge_rule = "minimum norm";
  report.method = side + "eigenvectors";
  return gram.minimum_norm();
}

}  // namespace headlens::training

#include "fit/ridge/direct.hpp"

#include <cmath>

#include "fit/penalties.hpp"

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
  std::vector<double> shifts;
  for (const double ridge : ridges) shifts.push_back(ridge * n);
  const auto path = gram.shift_path();
  const std::vector<double> errors = path->leave_one_out(shifts);
  for (std::size_t k = 0; k < ridges.size(); ++k) report.trials.push_back({ridges[k], errors[k]});
  const auto best = static_cast<std::size_t>(best_trial(report.trials));
  if (!std::isfinite(report.trials[best].error)) return std::nullopt;
  report.ridge = ridges[best];
  return solve(path->factor(shifts[best]).get(), gram.right_side());
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

#include "fit/iterative.hpp"

#include <algorithm>
#include <cmath>

#include "base/random.hpp"
#include "fit/ridge_path.hpp"
#include "linalg/cg.hpp"
#include "linalg/nystrom.hpp"

namespace headlens {
namespace {

constexpr double kTolerance = 1e-11;      // of the fit
constexpr double kTrialTolerance = 1e-5;  // of the fits that only choose the penalty
constexpr int kMaxIterations = 2000;

void copy(MatrixView<const double> from, MatrixView<double> to) {
  for (Index i = 0; i < from.rows; ++i) std::copy_n(from.row(i), from.cols, to.row(i));
}

// The regularised system on the rows of weight 1. Unknowns are alpha (dual) or V (primal).
template <class T>
class RidgeSystem {
 public:
  RidgeSystem(DesignMatrix<T>& design, MatrixView<const double> y, std::vector<double> weights, bool dual)
      : design_(design), y_(y), weights_(std::move(weights)), dual_(dual) {}

  Index size() const { return dual_ ? design_.rows() : design_.columns(); }
  bool dual() const { return dual_; }

  void apply(double shift, MatrixView<const double> in, MatrixView<double> out) const {
    const Matrix<double> product =
        dual_ ? weighted(design_.outer_product(weighted_copy(in), "conjugate gradients"))
              : design_.inner_product(in, "conjugate gradients", weights_);
    for (Index i = 0; i < in.rows; ++i)
      for (Index c = 0; c < in.cols; ++c) out(i, c) = product(i, c) + shift * in(i, c);
  }
  Matrix<double> rhs() const {
    Matrix<double> y = weighted_copy(y_);
    return dual_ ? std::move(y) : design_.adjoint(y, "right side");
  }
  Matrix<double> fitted(MatrixView<const double> unknowns) const {
    return dual_ ? design_.outer_product(weighted_copy(unknowns), "validate")
                 : design_.forward(unknowns, "validate");
  }

 private:
  Matrix<double> weighted(Matrix<double> a) const {
    for (Index i = 0; !weights_.empty() && i < a.rows(); ++i)
      for (Index c = 0; c < a.cols(); ++c) a(i, c) *= weights_[static_cast<std::size_t>(i)];
    return a;
  }
  Matrix<double> weighted_copy(MatrixView<const double> a) const {
    Matrix<double> out(a.rows, a.cols);
    copy(a, out);
    return weighted(std::move(out));
  }

  DesignMatrix<T>& design_;
  MatrixView<const double> y_;
  std::vector<double> weights_;
  bool dual_;
};

// 1 for training, 0 for every tenth set of a random order.
std::vector<double> hold_out_tenth(Index count, std::uint64_t seed) {
  std::vector<Index> order(static_cast<std::size_t>(count));
  for (Index i = 0; i < count; ++i) order[static_cast<std::size_t>(i)] = i;
  Stream stream(seed, "hold-out");
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[stream.below(i)]);
  std::vector<double> weights(order.size(), 1.0);
  for (std::size_t i = 0; i < std::max<std::size_t>(1, order.size() / 10); ++i)
    weights[static_cast<std::size_t>(order[i])] = 0.0;
  return weights;
}

double held_out_error(MatrixView<const double> fitted, MatrixView<const double> y,
                      const std::vector<double>& weights) {
  double squares = 0, count = 0;
  for (Index i = 0; i < y.rows; ++i)
    for (Index c = 0; weights[static_cast<std::size_t>(i)] == 0 && c < y.cols; ++c, ++count)
      squares += std::pow(fitted(i, c) - y(i, c), 2);
  return squares / count;
}

template <class T>
CgResult run_cg(const RidgeSystem<T>& system, const BlockOperator& preconditioner, double shift,
                const CgOptions& options, MatrixView<double> unknowns, const Execution& execution) {
  return conjugate_gradients(
      [&](MatrixView<const double> in, MatrixView<double> out) { system.apply(shift, in, out); },
      preconditioner, system.rhs(), unknowns, options,
      [&](int, double residual) {
        execution.check_cancelled();
        execution.report_error("conjugate gradients", residual, options.tolerance);
      });
}

template <class T>
double choose_ridge(DesignMatrix<T>& design, const Problem& problem, const PreconditionerAt& preconditioner,
                    bool dual, MatrixView<const double> y, FitReport& report, const Execution& execution) {
  const Index n = problem.count();
  const std::vector<double> weights = hold_out_tenth(n, problem.options.features.seed);
  const RidgeSystem<T> system(design, y, weights, dual);
  Matrix<double> unknowns = Matrix<double>::zeros(system.size(), y.cols);
  int rises = 0;
  for (const double ridge : ridge_grid(design.mean_square_row(), n, problem.options.features.precision)) {
    const double shift = ridge * static_cast<double>(n);
    const CgResult cg =
        run_cg(system, preconditioner(shift), shift, {kTrialTolerance, kMaxIterations}, unknowns, execution);
    report.iterations += cg.iterations;
    const double error = held_out_error(system.fitted(unknowns), y, weights);
    rises = !report.trials.empty() && error > report.trials.back().error ? rises + 1 : 0;
    report.trials.push_back({ridge, error});
    if (rises == 3 || !cg.ok()) break;
  }
  return report.trials[static_cast<std::size_t>(best_trial(report.trials))].ridge;
}

}  // namespace

template <class T>
void solve_iterative(DesignMatrix<T>& design, const Problem& problem, const Plan& plan,
                     MatrixView<const double> y, Solution& solution, const Execution& execution,
                     const PreconditionerAt& given) {
  FitReport& report = solution.report;
  const RidgeSystem<T> system(design, y, {}, !given && design.rows() <= design.columns());
  report.method = system.dual() ? "dual conjugate gradients" : "primal conjugate gradients";
  report.ridge_rule = "given";
  NystromResult nystrom;
  if (!given)
    nystrom =
        build_nystrom([&](MatrixView<const double> in, MatrixView<double> out) { system.apply(0, in, out); },
                      system.size(), plan.sketch, problem.options.features.seed, design.threads());
  const PreconditionerAt sketched = [&](double shift) {
    return [&, shift](MatrixView<const double> in, MatrixView<double> out) {
      nystrom.preconditioner.apply(shift, in, out, design.threads());
    };
  };
  const PreconditionerAt& preconditioner = given ? given : sketched;
  if (!problem.options.ridge) {
    report.ridge = choose_ridge(design, problem, preconditioner, system.dual(), y, report, execution);
    report.ridge_rule = "held-out tenth";
  }
  Matrix<double> unknowns = Matrix<double>::zeros(system.size(), y.cols);
  const double shift = report.ridge * static_cast<double>(problem.count());
  const CgResult cg =
      run_cg(system, preconditioner(shift), shift, {kTolerance, kMaxIterations}, unknowns, execution);
  report.iterations += cg.iterations;
  report.status = cg.ok() ? FitStatus::solved : FitStatus::stalled;
  solution.values = system.dual() ? design.adjoint(unknowns, "values") : std::move(unknowns);
}

template <class T>
CgResult solve_shifted(DesignMatrix<T>& design, MatrixView<const double> y, bool dual, double shift,
                       const BlockOperator& preconditioner, const CgOptions& options,
                       MatrixView<double> unknowns, const Execution& execution) {
  return run_cg(RidgeSystem<T>(design, y, {}, dual), preconditioner, shift, options, unknowns, execution);
}

template CgResult solve_shifted(DesignMatrix<float>&, MatrixView<const double>, bool, double,
                                const BlockOperator&, const CgOptions&, MatrixView<double>, const Execution&);
template CgResult solve_shifted(DesignMatrix<double>&, MatrixView<const double>, bool, double,
                                const BlockOperator&, const CgOptions&, MatrixView<double>, const Execution&);
template void solve_iterative(DesignMatrix<float>&, const Problem&, const Plan&, MatrixView<const double>,
                              Solution&, const Execution&, const PreconditionerAt&);
template void solve_iterative(DesignMatrix<double>&, const Problem&, const Plan&, MatrixView<const double>,
                              Solution&, const Execution&, const PreconditionerAt&);

}  // namespace headlens

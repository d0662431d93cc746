#include "recover/certificate/error_bars.hpp"

#include <algorithm>
#include <boost/math/distributions/fisher_f.hpp>
#include <cmath>
#include <utility>

#include "base/random.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::recovery {
namespace {

constexpr double kConfidence = 0.95;
constexpr double kTolerance = 1e-2;  // of a solve: below what the number of draws can tell
constexpr int kMostInner = 400;

struct Draw {
  Matrix<double> theta;  // (d, m d)
  Matrix<double> w;      // (m d, e)
  int inner = 0;
};

// The errors that noise of deviation one makes.
Draw draw_errors(const backend::LayerProblem& problem, backend::LinearModel& model, double mu, Stream stream,
                 const std::function<bool()>& stop) {
  Matrix<double> noise(problem.rows(), problem.outputs()), moved(problem.rows(), problem.outputs());
  for (Index i = 0; i < noise.rows() * noise.cols(); ++i) noise.data()[i] = stream.normal();
  Matrix<double> projected = copy_of(noise), gradient(problem.dim(), problem.heads() * problem.dim());
  model.project(projected);
  model.adjoint(projected, gradient);
  backend::Step step = model.solve(gradient, mu, kTolerance, kMostInner, Precision::f64, stop);
  model.derivative(step.direction, moved);
  add(-1.0, moved, noise);
  return {std::move(step.direction), model.best_w(noise), step.inner};
}

// Of the covariance C of one head's errors under noise of deviation one: tr C and tr C^2.
struct HeadSpread {
  double trace = 0, squares = 0;
};

HeadSpread head_spread(const std::vector<MatrixView<const double>>& draws) {
  const double count = static_cast<double>(draws.size());
  HeadSpread spread;
  for (std::size_t r = 0; r < draws.size(); ++r) {
    spread.trace += squared_norm(draws[r]) / count;
    for (std::size_t s = 0; s < r; ++s) {
      const double product = inner_product(draws[r], draws[s]);
      spread.squares += 2 * product * product / (count * (count - 1));
    }
  }
  return spread;
}

double bar(const std::vector<MatrixView<const double>>& draws, const backend::LayerPoint& point, double noise,
           ResidualIs residual) {
  const HeadSpread spread = head_spread(draws);
  if (!(spread.trace > 0)) return 0;
  if (residual == ResidualIs::anything) return std::sqrt(point.squares * std::sqrt(spread.squares));
  const double count = static_cast<double>(draws.size());
  const double freedom = std::clamp(spread.trace * spread.trace / std::max(spread.squares, 1e-300), 1.0,
                                    static_cast<double>(draws[0].rows * draws[0].cols));
  const boost::math::fisher_f ratio(freedom, count * freedom);
  return noise * std::sqrt(spread.trace * boost::math::quantile(ratio, kConfidence));
}

}  // namespace

ErrorBars error_bars(const backend::LayerProblem& problem, const backend::LayerPoint& point,
                     ResidualIs residual, std::uint64_t seed, const std::function<bool()>& stop) {
  const Index d = problem.dim(), m = problem.heads(), e = problem.outputs();
  const double equations = static_cast<double>(problem.rows() * e),
               unknowns = static_cast<double>(m * d * (d + e));
  ErrorBars out;
  out.noise = std::sqrt(point.squares / std::max(1.0, equations - unknowns));
  const double mu = 1e-14 * problem.y_squares() / static_cast<double>(m * d * d);
  const std::unique_ptr<backend::LinearModel> model = problem.make_linear_model();
  model->move_to(point);
  model->refresh_preconditioner(point);
  model->shift_preconditioner(mu);
  std::vector<Draw> drawn;
  const int draws = residual == ResidualIs::noise ? 16 : 3;  // a bound needs no quantile
  for (int r = 0; r < draws; ++r) {
    drawn.push_back(
        draw_errors(problem, *model, mu, Stream(seed, "error bars", static_cast<std::uint64_t>(r)), stop));
    out.inner += drawn.back().inner;
  }
  for (Index i = 0; i < m; ++i) {
    std::vector<MatrixView<const double>> theta, w;
    for (const Draw& draw : drawn) {
      theta.push_back(draw.theta.view().block(0, i * d, d, d));
      w.push_back(draw.w.view().block(i * d, 0, d, e));
    }
    out.heads.push_back({bar(theta, point, out.noise, residual), bar(w, point, out.noise, residual)});
  }
  for (std::size_t r = 0; r < 3; ++r) out.draws.push_back(std::move(drawn[r].theta));
  return out;
}

}  // namespace headlens::recovery

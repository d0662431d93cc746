#include "recover/certificate/label_response.hpp"

#include <algorithm>

#include "base/random.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::recovery {
namespace {

constexpr double kDamping = 1e-14;            // of |Y|^2 / |parameters|^2
constexpr double kResolvedCurvature = 1e-11;  // of the typical curvature: below it products are rounding

Matrix<double> any_direction(const backend::LayerPoint& point, Stream stream) {
  Matrix<double> a(point.parameters.rows(), point.parameters.cols());
  for (Index i = 0; i < a.rows() * a.cols(); ++i) a.data()[i] = stream.normal();
  return a;
}

// <a, H a> / <a, a> for a random a: about the mean eigenvalue.
double typical_curvature(backend::LinearModel& model, const Matrix<double>& a) {
  Matrix<double> image(a.rows(), a.cols());
  model.normal_product(a, image);
  return inner_product(a, image) / squared_norm(a);
}

}  // namespace

LabelResponse label_response(const backend::LayerProblem& problem, const backend::LayerPoint& point,
                             ResponseOptions options, const FixGauge& fixed, Effort& effort) {
  LabelResponse out;
  out.model = problem.make_linear_model();
  options.draws.mu = kDamping * problem.y_squares() / std::max(squared_norm(point.parameters), 1e-300);
  out.model->move_to(point);
  out.model->refresh_preconditioner(point);
  out.model->shift_preconditioner(options.draws.mu);
  out.drawn = draw_errors(problem, *out.model, point, options.draws, effort);
  if (out.drawn.empty()) return out;
  Matrix<double> any = any_direction(point, Stream(options.draws.seed, options.any_stream));
  const double typical = typical_curvature(*out.model, any);
  std::vector<Matrix<double>> starts;
  for (std::size_t r = 0; r < 3; ++r) starts.push_back(copy_of(out.drawn[r].parameters));
  starts.push_back(std::move(any));  // draws have no part in directions that no label shows
  out.weakest = weakest_direction(*fixed(typical), point, starts, [&] { return effort.must_stop(); });
  effort.inner += out.weakest.products;
  out.resolved = !effort.expired() && !out.weakest.values.empty() &&
                 out.weakest.values[0] > kResolvedCurvature * typical;
  return out;
}

}  // namespace headlens::recovery

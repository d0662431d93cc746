#include "recover/certificate/error_draws.hpp"

#include <boost/math/distributions/fisher_f.hpp>
#include <utility>

#include "base/parallel.hpp"
#include "base/random.hpp"
#include "linalg/tiles.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::recovery {
namespace {

constexpr double kDrawTolerance = 1e-2;  // of a solve: below what the number of draws can tell
constexpr int kMostDrawSteps = 1000;
constexpr double kDrawConfidence = 0.95;

// Is H a = b to the tolerance, in the norm of the preconditioner? Asked in double of a solve in float.
bool is_solved(backend::LinearModel& model, const Matrix<double>& b, double mu, const Matrix<double>& a) {
  Matrix<double> left(b.rows(), b.cols());
  model.normal_product(a, left);
  add(mu, a, left);
  add(-1.0, b, left);
  return inner_product(left, model.precondition(left)) <
         std::pow(3 * kDrawTolerance, 2) * inner_product(b, model.precondition(b));
}

constexpr Index kNormals = 1 << 16;  // of a share; a whole number of blocks of the stream

// The first draws of a stream that has given none.
void fill_normal(const Stream& stream, Index count, int threads, double* to) {
  parallel_for(threads, tile_count(count, kNormals), [&](Index item, int) {
    const Tile tile = tile_at(count, kNormals, item);
    Stream share = stream.from_block(static_cast<std::uint64_t>(tile.begin / Stream::kBlock));
    for (Index i = 0; i < tile.size; ++i) to[tile.begin + i] = share.normal();
  });
}

// One solve; false if the solver did not get there.
bool draw_error(const backend::LayerProblem& problem, backend::LinearModel& model, double mu,
                const Stream& stream, Effort& effort, ErrorDraw& draw) {
  Matrix<double> noise(problem.rows(), problem.outputs());
  fill_normal(stream, noise.rows() * noise.cols(), effort.threads(), noise.data());
  model.respond(noise, draw.parameters);
  for (const Precision precision : {Precision::f32, Precision::f64}) {
    backend::Step step = model.solve(draw.parameters, mu, kDrawTolerance, kMostDrawSteps, precision,
                                     [&] { return effort.must_stop(); });
    effort.inner += step.inner;
    if (effort.expired()) return false;
    if (!is_solved(model, draw.parameters, mu, step.direction)) continue;
    draw.w = model.respond_in_w(noise, step.direction);
    draw.parameters = std::move(step.direction);
    return true;
  }
  return false;
}

}  // namespace

std::vector<ErrorDraw> draw_errors(const backend::LayerProblem& problem, backend::LinearModel& model,
                                   const backend::LayerPoint& point, const DrawOptions& options,
                                   Effort& effort) {
  std::vector<ErrorDraw> drawn;
  for (int r = 0; r < options.count; ++r) {
    drawn.push_back({Matrix<double>(point.parameters.rows(), point.parameters.cols()), {}});
    effort.report("error bars", r, 1, options.heads);
    const Stream stream(options.seed, options.stream, static_cast<std::uint64_t>(r));
    if (!draw_error(problem, model, options.mu, stream, effort, drawn.back())) return {};
  }
  return drawn;
}

Spread spread_of(const Matrix<double>& products, Index entries) {
  const double count = static_cast<double>(products.rows());
  Spread out;
  double squares = 0;
  for (Index r = 0; r < products.rows(); ++r) {
    out.trace += products(r, r) / count;
    for (Index s = 0; s < r; ++s) squares += 2 * std::pow(products(r, s), 2) / (count * (count - 1));
  }
  if (!(out.trace > 0) || count < 2) return out;
  const double freedom =
      std::clamp(out.trace * out.trace / std::max(squares, 1e-300), 1.0, static_cast<double>(entries));
  out.quantile = boost::math::quantile(boost::math::fisher_f(freedom, count * freedom), kDrawConfidence);
  return out;
}

}  // namespace headlens::recovery

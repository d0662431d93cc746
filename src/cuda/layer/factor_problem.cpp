#include "cuda/layer/factor_problem.hpp"

#include <algorithm>

#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "cuda/layer/factor_model.hpp"
#include "cuda/layer/vectors.hpp"
#include "headlens/error.hpp"

namespace headlens::cuda {
namespace {

constexpr Index kAppliedRows = 16384;
constexpr double kLibraries = 512.0 * 1024 * 1024;  // workspaces of cuBLAS and cuSOLVER

// Two points, the tangents in float and in double, images of conjugate gradients, the preconditioner.
double problem_bytes(const backend::LayerExamples& examples, const backend::HeadRanks& ranks) {
  const auto rows = static_cast<double>(examples.x.rows), d = static_cast<double>(examples.x.cols),
             e = static_cast<double>(examples.y.cols), k = static_cast<double>(examples.tokens);
  const auto z = static_cast<double>(ranks.parameter_columns()), m = static_cast<double>(ranks.heads()),
             b = static_cast<double>(ranks.value_columns());
  const double point = 8 * (z + m * k + b + e), given = 8 * (d + e), single = 4 * (d + z + m * k + b);
  const double images = 8 * (2 * z + 2 * m * k + 3 * b + 2 * e), precondition = 4 * (2 * d + b);
  // Where labels are missing: M_c^-1 of up to every output, of both points and both tangents, the rows of Q
  // that an output misses, and which labels those are.
  const double partial = examples.seen.rows == 0 ? 0 : 28 * e * b * b + rows * (16 * b + 12 * e);
  return rows * (given + 2 * point + single + 8 * b + images + precondition) + 8 * (4 * b * b + 4 * b * e) +
         8 * 12 * d * z + 4 * 6 * m * d * d + partial + kLibraries;
}

std::vector<Index> lengths_of(const backend::LayerExamples& examples, Index first, Index count) {
  if (examples.lengths.empty()) return {};
  const auto begin = examples.lengths.begin() + first;
  return {begin, begin + count};
}

// work(first row, rows, F of these rows on the device)
template <class Work>
void over_applied(const backend::LayerExamples& examples, const backend::HeadRanks& ranks,
                  const backend::FactorValues& values, int threads, Work&& work) {
  const Index tokens = examples.tokens;
  const MatrixView<const double> x = examples.x;
  require_tokens(tokens);
  const DeviceMatrix<double> parameters = upload<double>(values.parameters.view(), threads),
                             o = upload<double>(values.o.view(), threads);
  const Index step = std::max<Index>(1, kAppliedRows / tokens) * tokens;
  for (Index row = 0; row < x.rows; row += step) {
    heed();
    const Index rows = std::min(step, x.rows - row);
    const DeviceMatrix<double> here = upload<double>(x.block(row, 0, rows, x.cols), threads);
    const FactorMap<double> map(here.view(), tokens, ranks,
                                lengths_of(examples, row / tokens, rows / tokens));
    DeviceMatrix<double> z = map.make_activations(), p = map.make_attention(), phi = map.make_phi(),
                         out(rows, o.cols());
    map.evaluate(parameters.view(), z, p, phi);
    multiply(Trans::no, Trans::no, 1, MatrixView<const double>(phi.view()), o.view(), 0, out.view());
    work(row, rows, out);
  }
}

}  // namespace

FactorProblem::FactorProblem(const backend::LayerExamples& examples, backend::HeadRanks ranks, int threads)
    : x_(upload<double>(examples.x, threads)),
      y_(upload<double>(examples.y, threads)),
      seen_(examples.seen, threads),
      tokens_(examples.tokens),
      lengths_(examples.lengths),
      ranks_(std::move(ranks)),
      map_(std::as_const(x_).view(), tokens_, ranks_, lengths_),
      threads_(threads),
      y_squares_(inner_product(y_.data(), y_.data(), y_.size())) {}

std::unique_ptr<backend::LayerPoint> FactorProblem::make_point() const {
  auto point = std::make_unique<FactorPoint>();
  allocate_readout(*point, rows(), ranks_.value_columns(), outputs(), seen_);
  point->z = map_.make_activations();
  point->p = map_.make_attention();
  return point;
}

void FactorProblem::evaluate(Matrix<double> parameters, double ridge, backend::LayerPoint& at) const {
  FactorPoint& point = as_factor_point(at);
  point.parameters = std::move(parameters);
  const DeviceMatrix<double> values = upload<double>(point.parameters.view(), threads_);
  map_.evaluate(values.view(), point.z, point.p, point.phi);
  gather_readout(y_, point);
  solve_for_w(ridge, point);
}

void FactorProblem::solve_for_w(double ridge, backend::LayerPoint& at) const {
  solve_readout(y_, y_squares_, ridge, threads_, as_factor_point(at));
}

Matrix<double> FactorProblem::residual(const backend::LayerPoint& at) const {
  return download(as_factor_point(at).residual, threads_);
}

void FactorProblem::gradient(const backend::LayerPoint& at, MatrixView<double> dp) const {
  const FactorPoint& point = as_factor_point(at);
  DeviceMatrix<double> g = map_.make_phi(), out(dp.rows, dp.cols);
  multiply(Trans::no, Trans::yes, 1, point.residual.view(), point.o.view(), 0, g.view());
  map_.adjoint(point.z.data(), point.p.data(), g, out.view());
  download(out, threads_, dp);
}

std::unique_ptr<backend::LinearModel> FactorProblem::make_linear_model() const {
  return std::make_unique<FactorModel>(*this);
}

std::unique_ptr<backend::LayerProblem> make_factor_problem(const backend::LayerExamples& examples,
                                                           const backend::HeadRanks& ranks,
                                                           const backend::Context& context) {
  require_tokens(examples.tokens);
  MemoryBudget(context.execution, free_device_bytes())
      .require(problem_bytes(examples, ranks), "the recovery on the device");
  return std::make_unique<FactorProblem>(examples, ranks, context.threads);
}

Matrix<double> apply_factors(const backend::LayerExamples& examples, const backend::HeadRanks& ranks,
                             const backend::FactorValues& values, int threads) {
  Matrix<double> out(examples.x.rows, values.o.cols());
  over_applied(examples, ranks, values, threads, [&](Index row, Index rows, const DeviceMatrix<double>& f) {
    download(f, threads, out.view().block(row, 0, rows, out.cols()));
  });
  return out;
}

double factor_squares(const backend::LayerExamples& examples, const backend::HeadRanks& ranks,
                      const backend::FactorValues& values, int threads) {
  double squares = 0;
  over_applied(examples, ranks, values, threads, [&](Index row, Index rows, DeviceMatrix<double>& f) {
    const DeviceMatrix<double> y = upload<double>(examples.y.block(row, 0, rows, f.cols()), threads);
    add_scaled(-1, y.data(), f.size(), f.data());
    if (examples.seen.rows > 0) {
      const DeviceMatrix<float> seen = upload<float>(examples.seen.block(row, 0, rows, f.cols()), threads);
      hide_unseen(seen.data(), f.size(), f.data());
    }
    squares += inner_product(f.data(), f.data(), f.size());
  });
  return squares;
}

}  // namespace headlens::cuda

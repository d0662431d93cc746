#include "fit/trained_model.hpp"

#include <fmt/format.h>

#include <cmath>

#include "headlens/error.hpp"

namespace headlens::training {
namespace {

void put(Array& array, Index at, double value) {
  if (array.dtype() == DType::f32)
    array.data<float>()[at] = static_cast<float>(value);
  else
    array.data<double>()[at] = value;
}

// A model of infinities would be no model: the data are out of the range of its numbers.
void require_finite(const Array& array, const Problem& problem) {
  for (Index i = 0; i < array.size(); ++i)
    require(std::isfinite(array.at(i)), problem.sets.name(), ": the fitted values overflow ",
            name(array.dtype()), ": scale the tokens or y");
}

// What a reader of the file should know; nothing that differs between two runs of the same fit.
std::map<std::string, std::string> report_entries(const Problem& problem, const FitReport& report) {
  const FitOptions& options = problem.options;
  std::map<std::string, std::string> entries{
      {"status", name(report.status)},
      {"method", report.method},
      {"backend", report.backend},
      {"sets", fmt::format("{}", problem.count())},
      {"ridge", fmt::format("{}", report.ridge)},
      {"ridge_rule", report.ridge_rule},
      {"train_loss", fmt::format("{}", report.train_loss)},
      {"residual", fmt::format("{}", report.residual)},
      {"iterations", fmt::format("{}", report.iterations)},
      {"fitted_intercept", options.intercept ? "true" : "false"},
  };
  if (options.loss == Loss::huber) entries["huber_delta"] = fmt::format("{}", options.huber_delta);
  if (options.norm_ball)
    entries["norm_ball"] = fmt::format("{},{}", options.norm_ball->k1, options.norm_ball->k2);
  return entries;
}

// Everything but the tensors.
Model described_model(const Problem& problem, const FitReport& report) {
  Model model;
  model.features = problem.options.features;
  model.loss = problem.options.loss;
  model.dim = problem.sets.dim();
  model.keys = problem.keys();
  model.outputs = problem.outputs;
  model.vector_targets = problem.vector_targets;
  model.sequence = problem.sets.is_sequence();
  model.classes = problem.classes;
  model.report = report_entries(problem, report);
  return model;
}

}  // namespace

Model trained_model(const Problem& problem, Array heads, MatrixView<const double> values,
                    const std::vector<double>& means, const Solution& solution) {
  Model model = described_model(problem, solution.report);
  model.heads = std::move(heads);
  const Index m = model.heads.dim(0), q = problem.outputs, width = values.rows / m;
  const bool mlp = model.features.kind == ModelKind::mlp;
  model.values = Array(model.heads.dtype(), mlp ? std::vector<Index>{m, q} : std::vector<Index>{m, width, q});
  model.intercept = Array(model.heads.dtype(), {q});
  if (solution.report.status == FitStatus::not_positive_definite) return model;
  std::vector<double> offset = solution.offset;
  for (Index i = 0; i < values.rows; ++i)
    for (Index c = 0; c < q; ++c) {
      put(model.values, i * q + c, values(i, c));
      offset[static_cast<std::size_t>(c)] -= means[static_cast<std::size_t>(i)] * model.values.at(i * q + c);
    }
  for (Index c = 0; c < q; ++c) put(model.intercept, c, offset[static_cast<std::size_t>(c)]);
  require_finite(model.values, problem);
  require_finite(model.intercept, problem);
  return model;
}

Model kernel_model(const Problem& problem, Support support, MatrixView<const double> values,
                   const std::vector<double>& offset, const FitReport& report) {
  Model model = described_model(problem, report);
  model.support = std::move(support);
  model.values = Array(DType::f64, {values.rows, values.cols});
  copy_rows(values, {model.values.data<double>(), values.rows, values.cols});
  model.intercept = Array::from(offset, {values.cols});
  require_finite(model.values, problem);
  require_finite(model.intercept, problem);
  return model;
}

}  // namespace headlens::training

// Prediction streams over blocks of sets: its memory does not grow with their number.
#include <algorithm>
#include <cmath>

#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "features/feature_map.hpp"
#include "fit/block_products.hpp"
#include "fit/check_fits.hpp"
#include "fit/design_matrix.hpp"
#include "headlens/error.hpp"
#include "headlens/fit.hpp"
#include "kernels/closed_form.hpp"
#include "kernels/support.hpp"

namespace headlens {
namespace {

// V in the order of the feature map.
template <class T>
Matrix<double> packed_values(const Model& model, const FeatureMap<T>& map) {
  Matrix<double> values = Matrix<double>::zeros(map.columns(), model.outputs);
  for (Index m = 0; m < map.heads(); ++m)
    for (Index j = 0; j < map.width(); ++j)
      for (Index c = 0; c < model.outputs; ++c)
        values(map.column_of(m, j), c) = model.values.at((m * map.width() + j) * model.outputs + c);
  return values;
}

void require_finite(MatrixView<const double> scores, const Sets& sets) {
  for (Index i = 0; i < scores.rows; ++i)
    for (Index c = 0; c < scores.cols; ++c)
      require(std::isfinite(scores(i, c)), sets.name(), ": the predictions overflow: scale the tokens down");
}

// Sets whose kernel with m others is held at once: whole tiles, some 2^22 entries.
Index kernel_block(Index m, Index count) {
  constexpr Index kTile = 64;  // a multiple of every tile
  return std::min(count, std::max<Index>(1, (Index{1} << 22) / (m * kTile)) * kTile);
}

template <class T>
Array scores_of(const Model& model, const Sets& sets, const Execution& execution) {
  const int threads = thread_count(execution);
  const auto map = FeatureMap<T>::make(model.features, model.dim, model.keys, model.heads);
  const Matrix<double> values = packed_values(model, *map);
  const Index n = sets.count(), q = model.outputs;
  const Index step = std::min(n, default_block_sets(map->columns()));
  Matrix<T> features(step, map->columns());
  Array out(DType::f64, {n, q});
  MatrixView<double> all(out.data<double>(), n, q);
  for (Index first = 0; first < n; first += step) {
    execution.check_cancelled();
    execution.report("predict", static_cast<double>(first), static_cast<double>(n));
    const Index count = std::min(step, n - first);
    const MatrixView<T> block = features.view().block(0, 0, count, map->columns());
    map->compute(sets, first, first + count, block, threads);
    const MatrixView<double> to = all.block(first, 0, count, q);
    for (Index i = 0; i < count; ++i)
      for (Index c = 0; c < q; ++c) to(i, c) = model.intercept.at(c);
    add_product<T>(block, values, to, threads);
    require_finite(to, sets);
  }
  return out;
}

// f(x) = b + sum_i K(x, z_i) a_i, in blocks of sets.
Array kernel_scores(const Model& model, const Sets& sets, const Execution& execution) {
  const FeatureOptions& f = model.features;
  const Sets support = sets_of(model.support);
  const ClosedFormKernel kernel(f, false);
  const TokenSource left(sets, f.kind, f.positions, f.precision);
  const TokenSource right(support, f.kind, Positions::none, f.precision);
  const Index n = sets.count(), m = support.count(), q = model.outputs, step = kernel_block(m, n);
  Array out(DType::f64, {n, q});
  MatrixView<double> all(out.data<double>(), n, q);
  const MatrixView<const double> values(model.values.data<double>(), m, q);
  Matrix<double> buffer(step, m);
  for (Index first = 0; first < n; first += step) {
    execution.report("predict", static_cast<double>(first), static_cast<double>(n));
    const Index count = std::min(step, n - first);
    const MatrixView<double> block = buffer.view().block(0, 0, count, m);
    kernel.compute(left, first, first + count, right, block, execution);
    const MatrixView<double> to = all.block(first, 0, count, q);
    for (Index i = 0; i < count; ++i)
      for (Index c = 0; c < q; ++c) to(i, c) = model.intercept.at(c);
    add_product<double>(block, values, to, thread_count(execution));
    require_finite(to, sets);
  }
  return out;
}

void require_kernel_memory(const Model& model, const Sets& sets, const Execution& execution) {
  const FeatureOptions& f = model.features;
  const double data = static_cast<double>(sets.query().bytes() + sets.keys().bytes());
  const double support = static_cast<double>(model.support.query.bytes() + model.support.keys.bytes());
  const Index m = model.support.query.dim(0);
  const double scores = 8.0 * static_cast<double>(sets.count()) * static_cast<double>(model.outputs);
  const TokenSource source(sets, f.kind, f.positions, f.precision);
  const double block = 8.0 * static_cast<double>(kernel_block(m, sets.count())) * static_cast<double>(m);
  const double buffers = ClosedFormKernel(f, false).buffer_bytes(source, source, thread_count(execution));
  MemoryBudget(execution).require(data + support + scores + block + 2 * buffers,
                                  join("prediction of ", sets.count(), " sets"));
}

void require_memory(const Model& model, const Sets& sets, const Execution& execution) {
  const double item = model.features.precision == Precision::f32 ? 4 : 8;
  const double columns = static_cast<double>(model.features.heads) *
                         static_cast<double>(model.features.kind == ModelKind::mlp ? 1 : model.dim + 1);
  const double block =
      static_cast<double>(std::min(sets.count(), default_block_sets(static_cast<Index>(columns))));
  const double data = static_cast<double>(sets.query().bytes() + sets.keys().bytes());
  const double model_bytes = 2.0 * static_cast<double>(model.heads.bytes() + model.values.bytes());
  const double scores = 8.0 * static_cast<double>(sets.count()) * static_cast<double>(model.outputs);
  MemoryBudget(execution).require(data + model_bytes + scores + block * columns * item,
                                  join("prediction of ", sets.count(), " sets"));
}

std::int64_t label_of(const Model& model, const double* scores) {
  if (model.outputs == 1) return model.classes[scores[0] > 0 ? 1 : 0];
  return model.classes[static_cast<std::size_t>(std::max_element(scores, scores + model.outputs) - scores)];
}

std::vector<Index> output_shape(const Model& model, const Sets& sets) {
  std::vector<Index> shape{sets.count()};
  if (sets.is_sequence()) shape = {sets.count() / sets.sequence_length(), sets.sequence_length()};
  if (!model.is_classifier() && model.vector_targets) shape.push_back(model.outputs);
  return shape;
}

}  // namespace

void check_fits(const Model& model, const Sets& sets) {
  require(model.dim == sets.dim(), sets.name(), ": tokens have ", sets.dim(),
          " coordinates, the model expects ", model.dim);
  require(model.sequence == sets.is_sequence(), sets.name(), ": the model was fitted on ",
          model.sequence ? "sequences" : "sets", ", this file holds ", model.sequence ? "sets" : "sequences");
  if (model.features.kind == ModelKind::mlp)
    require(sets.equal_sizes() && sets.keys_of(0) == model.keys, sets.name(),
            ": the mlp was fitted on sets of ", model.keys, " keys, found ",
            sets.equal_sizes() ? "" : "up to ", sets.max_keys());
}

Array predict_scores(const Model& model, const Sets& sets, const Execution& execution) {
  check_fits(model, sets);
  if (model.features.infinite()) {
    require_kernel_memory(model, sets, execution);
    return kernel_scores(model, sets, execution);
  }
  require_memory(model, sets, execution);
  return model.features.precision == Precision::f32 ? scores_of<float>(model, sets, execution)
                                                    : scores_of<double>(model, sets, execution);
}

Array predict(const Model& model, const Sets& sets, const Execution& execution) {
  const Array scores = predict_scores(model, sets, execution);
  const std::vector<Index> shape = output_shape(model, sets);
  if (!model.is_classifier()) {
    if (model.features.precision == Precision::f64) {
      Array out(DType::f64, shape);
      std::copy_n(scores.data<double>(), scores.size(), out.data<double>());
      return out;
    }
    Array out(DType::f32, shape);
    std::transform(scores.data<double>(), scores.data<double>() + scores.size(), out.data<float>(),
                   [&](double s) {
                     require(std::isfinite(static_cast<float>(s)), sets.name(),
                             ": the predictions overflow float32: scale the tokens down");
                     return static_cast<float>(s);
                   });
    return out;
  }
  Array labels(DType::i64, shape);
  for (Index i = 0; i < sets.count(); ++i)
    labels.data<std::int64_t>()[i] = label_of(model, scores.data<double>() + i * model.outputs);
  return labels;
}

Evaluation evaluate(const Model& model, const LabelledSets& data, const Execution& execution) {
  const Targets& y = data.targets;
  const Index n = data.sets.count();
  const Index expected = model.is_classifier() ? 1 : model.outputs;
  require(y.outputs == expected, data.sets.name(), ": y has ", y.outputs, " outputs, the model has ",
          expected);
  Evaluation result{.count = n};
  if (model.is_classifier()) {
    const Array labels = predict(model, data.sets, execution);
    Index hits = 0;
    for (Index i = 0; i < n; ++i)
      hits += static_cast<double>(labels.data<std::int64_t>()[i]) == y.values[static_cast<std::size_t>(i)];
    result.accuracy = static_cast<double>(hits) / static_cast<double>(n);
    return result;
  }
  const Array scores = predict_scores(model, data.sets, execution);
  const Index q = y.outputs;
  double squares = 0, variance = 0;
  for (Index c = 0; c < q; ++c) {
    const double first = y.values[static_cast<std::size_t>(c)];
    double mean = 0;  // of y - first, so that a constant column has variance exactly 0
    for (Index i = 0; i < n; ++i)
      mean += (y.values[static_cast<std::size_t>(i * q + c)] - first) / static_cast<double>(n);
    for (Index i = 0; i < n; ++i) {
      const double target = y.values[static_cast<std::size_t>(i * q + c)];
      squares += std::pow(scores.data<double>()[i * q + c] - target, 2);
      variance += std::pow(target - first - mean, 2);
    }
  }
  require(std::isfinite(squares), data.sets.name(), ": the squared errors overflow: scale the tokens down");
  result.mse = squares / static_cast<double>(n * q);
  if (variance > 0) result.nmse = squares / variance;
  return result;
}

}  // namespace headlens

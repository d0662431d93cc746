// What a model says of sets, in tiles of sets.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "automatic/blocks.hpp"
#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "features/kept_sets.hpp"
#include "headlens/error.hpp"
#include "linalg/multiply.hpp"
#include "linalg/tiles.hpp"

namespace headlens {
namespace automatic {
namespace {

constexpr Index kTileSets = 2048;  // the kept sets are described again for every tile

void check_sets(const AutomaticModel& model, const Sets& sets) {
  require(model.dim == sets.dim(), sets.name(), ": tokens have ", sets.dim(),
          " coordinates, the model expects ", model.dim);
  require(model.sequence == sets.is_sequence(), sets.name(), ": the model was fitted on ",
          model.sequence ? "sequences" : "sets", ", this file holds ", model.sequence ? "sets" : "sequences");
}

Index kept_sets(const AutomaticModel& model) { return model.support.query.dim(0); }

// Kernels of every member between a tile of sets and the kept sets, and the squared norms of the first
// member.
struct TileKernels {
  Tile range;
  std::vector<Matrix<double>> kernels;
  std::vector<double> squared_norms;
};

void for_tiles(const AutomaticModel& model, const Sets& sets, const Execution& execution,
               const std::function<void(const TileKernels&, int threads)>& body) {
  const Heed heeding(execution);
  check_sets(model, sets);
  const int threads = thread_count(execution);
  const Index n = sets.count(), m = kept_sets(model);
  const auto rows = static_cast<double>(std::min(n, kTileSets) + m);
  const auto members = static_cast<double>(model.members.size());
  const auto width = static_cast<double>(std::max(model.frame.head_keys.dim(0) * model.frame.head_keys.dim(2),
                                                  3 * model.frame.frequencies.dim(0)));
  MemoryBudget(execution).require(8 * rows * (width + (members + 1) * static_cast<double>(m)),
                                  join("prediction of ", n, " sets"));
  std::vector<Index> all(static_cast<std::size_t>(m));
  std::iota(all.begin(), all.end(), Index{0});
  const Tokens kept = standardise(model.frame, sets_of(model.support), all, threads);
  for (Index t = 0; t < tile_count(n, kTileSets); ++t) {
    execution.report("predict", static_cast<double>(t), static_cast<double>(tile_count(n, kTileSets)));
    TileKernels tile{tile_at(n, kTileSets, t), {}, {}};
    std::vector<Index> chosen(static_cast<std::size_t>(tile.range.size));
    std::iota(chosen.begin(), chosen.end(), tile.range.begin);
    const Tokens tokens = standardise(model.frame, sets, chosen, threads);
    std::vector<Products> products = block_products(model.members, model.frame, tokens, kept, threads);
    tile.squared_norms = products.front().left;
    for (std::size_t c = 0; c < model.members.size(); ++c)
      tile.kernels.push_back(kernel_of(model.members[c], std::move(products[c]), threads));
    body(tile, threads);
  }
}

MatrixView<const double> values_of(const AutomaticModel& model, Index member) {
  const Index m = kept_sets(model), q = model.outputs;
  return {model.values.data<double>() + member * m * q, m, q};
}

std::vector<Index> output_shape(const AutomaticModel& model, const Sets& sets) {
  std::vector<Index> shape{sets.count()};
  if (sets.is_sequence()) shape = {sets.count() / sets.sequence_length(), sets.sequence_length()};
  if (!model.is_classifier() && model.vector_targets) shape.push_back(model.outputs);
  return shape;
}

std::int64_t label_of(const AutomaticModel& model, const double* scores) {
  if (model.outputs == 1) return model.classes[scores[0] > 0 ? 1 : 0];
  return model.classes[static_cast<std::size_t>(std::max_element(scores, scores + model.outputs) - scores)];
}

// s sqrt(1 + 1/n + v / penalty), v = K(x, x) - 2 mean K(x, z) + mean K(z, z') - |S^T (k - means)|^2.
void deviations_of(const AutomaticModel& model, const TileKernels& tile, double* out, int threads) {
  const Matrix<double>& kernel = tile.kernels.front();
  const AutomaticMember& member = model.members.front();
  const Index m = kernel.cols(), q = model.outputs, r = model.spread.dim(1);
  const double* means = model.kernel_means.data<double>();
  const double grand = std::accumulate(means, means + m, 0.0) / static_cast<double>(m);
  Matrix<double> centred(kernel.rows(), m), taken(kernel.rows(), r);
  for (Index i = 0; i < kernel.rows(); ++i)
    for (Index j = 0; j < m; ++j) centred(i, j) = kernel(i, j) - means[j];
  multiply(Trans::no, Trans::no, 1, centred, MatrixView<const double>{model.spread.data<double>(), m, r}, 0,
           taken, threads);
  for (Index i = 0; i < kernel.rows(); ++i) {
    const double* row = kernel.view().row(i);
    double v = kernel_of_itself(member, tile.squared_norms[static_cast<std::size_t>(i)]) + grand -
               2 * std::accumulate(row, row + m, 0.0) / static_cast<double>(m);
    for (Index k = 0; k < r; ++k) v -= taken(i, k) * taken(i, k);
    const double factor =
        std::sqrt(1 + 1 / static_cast<double>(model.count) + std::max(0.0, v) / member.penalty);
    for (Index c = 0; c < q; ++c)
      out[(tile.range.begin + i) * q + c] = factor * model.noise.data<double>()[c];
  }
}

}  // namespace
}  // namespace automatic

Array predict_scores(const AutomaticModel& model, const Sets& sets, const Execution& execution) {
  Array out(DType::f64, {sets.count(), model.outputs});
  automatic::for_tiles(model, sets, execution, [&](const automatic::TileKernels& tile, int threads) {
    const Index q = model.outputs;
    MatrixView<double> rows{out.data<double>() + tile.range.begin * q, tile.range.size, q};
    for (Index i = 0; i < rows.rows; ++i) std::copy_n(model.intercept.data<double>(), q, rows.row(i));
    for (std::size_t c = 0; c < tile.kernels.size(); ++c)
      multiply(Trans::no, Trans::no, 1, tile.kernels[c], automatic::values_of(model, static_cast<Index>(c)),
               1, rows, threads);
  });
  return out;
}

Array predict(const AutomaticModel& model, const Sets& sets, const Execution& execution) {
  const Array scores = predict_scores(model, sets, execution);
  if (!model.is_classifier()) {
    Array out(DType::f64, automatic::output_shape(model, sets));
    std::copy_n(scores.data<double>(), scores.size(), out.data<double>());
    return out;
  }
  Array out(DType::i64, automatic::output_shape(model, sets));
  for (Index i = 0; i < sets.count(); ++i)
    out.data<std::int64_t>()[i] = automatic::label_of(model, scores.data<double>() + i * model.outputs);
  return out;
}

Array compute_features(const AutomaticModel& model, const Sets& sets, const Execution& execution) {
  const Index m = automatic::kept_sets(model), width = static_cast<Index>(model.members.size()) * m;
  Array out(DType::f64, {sets.count(), width});
  automatic::for_tiles(model, sets, execution, [&](const automatic::TileKernels& tile, int) {
    for (std::size_t c = 0; c < tile.kernels.size(); ++c)
      for (Index i = 0; i < tile.range.size; ++i)
        std::copy_n(tile.kernels[c].view().row(i), m,
                    out.data<double>() + (tile.range.begin + i) * width + static_cast<Index>(c) * m);
  });
  return out;
}

Array predict_deviation(const AutomaticModel& model, const Sets& sets, const Execution& execution) {
  require(!model.is_classifier(), "deviations are for regression; classifiers have probabilities");
  Array out(DType::f64, automatic::output_shape(model, sets));
  automatic::for_tiles(model, sets, execution, [&](const automatic::TileKernels& tile, int threads) {
    automatic::deviations_of(model, tile, out.data<double>(), threads);
  });
  return out;
}

Evaluation evaluate(const AutomaticModel& model, const LabelledSets& data, const Execution& execution) {
  const Index expected = model.is_classifier() ? 1 : model.outputs, n = data.sets.count(), q = expected;
  const std::vector<double>& y = data.targets.values;
  require(data.targets.outputs == expected, data.sets.name(), ": y has ", data.targets.outputs,
          " outputs, the model has ", expected);
  const Array predicted = predict(model, data.sets, execution);
  Evaluation out{.count = n};
  double squares = 0, variance = 0, hits = 0;
  for (Index c = 0; c < q; ++c) {
    double mean = 0;
    for (Index i = 0; i < n; ++i) mean += y[static_cast<std::size_t>(i * q + c)] / static_cast<double>(n);
    for (Index i = 0; i < n; ++i) {
      const double target = y[static_cast<std::size_t>(i * q + c)], error = predicted.at(i * q + c) - target;
      squares += error * error;
      variance += (target - mean) * (target - mean);
      hits += error == 0;
    }
  }
  if (model.is_classifier()) {
    out.accuracy = hits / static_cast<double>(n);
    return out;
  }
  out.mse = squares / static_cast<double>(n * q);
  if (variance > 0) out.nmse = squares / variance;
  return out;
}

}  // namespace headlens

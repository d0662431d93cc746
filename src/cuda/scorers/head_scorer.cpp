#include <algorithm>

#include "base/memory.hpp"
#include "cuda/arrays.hpp"
#include "cuda/design/head_design.hpp"
#include "cuda/features/feature_map.hpp"
#include "cuda/products/products.hpp"
#include "cuda/scorers/scorers.hpp"
#include "cuda/staging.hpp"
#include "features/positions.hpp"
#include "headlens/error.hpp"

namespace headlens::cuda {
namespace {

template <class T>
std::unique_ptr<FeatureMap<T>> map_of(const Model& model) {
  return make_head_map<T>(model.features, model.dim, model.keys, model.heads);
}

std::vector<double> table_of(const Model& model, const Sets& sets) {
  return position_table(model.features.positions, sets.max_keys() + 1, sets.dim());
}

template <class T>
class HeadScorer final : public backend::Scorer {
 public:
  HeadScorer(const Model& model, Index max_keys)
      : model_(model), max_keys_(max_keys), map_(map_of<T>(model)) {
    std::vector<double> values(static_cast<std::size_t>(map_->columns() * model.outputs), 0.0);
    for (Index m = 0; m < map_->heads(); ++m)
      for (Index j = 0; j < map_->width(); ++j)
        for (Index c = 0; c < model.outputs; ++c)
          values[static_cast<std::size_t>(map_->column_of(m, j) * model.outputs + c)] =
              model.values.at((m * map_->width() + j) * model.outputs + c);
    values_ = DeviceArray<double>::from(values);
  }

  void multiply(const Sets& sets, Index first, Index last, MatrixView<double> out,
                int threads) const override {
    const std::vector<double> table = table_of(model_, sets);
    const Index step = rows_of_block(map_->columns(), sizeof(T)), q = out.cols;
    for (Index begin = first; begin < last; begin += step) {
      const Index count = std::min(step, last - begin);
      Tokens<T> tokens = pack_tokens<T>(sets, begin, begin + count, table, threads);
      tokens.max_keys = std::max(tokens.max_keys, max_keys_);
      if (phi_.size() < count * map_->columns()) phi_ = {}, phi_ = DeviceArray<T>(count * map_->columns());
      DeviceArray<double> scores(count * q);
      map_->compute(tokens, 0, count, phi_.data());
      add_forward(phi_.data(), count, map_->columns(), values_.data(), q, scores.data());
      const std::vector<double> found = scores.to_host();
      for (Index i = 0; i < count; ++i) std::copy_n(found.data() + i * q, q, out.row(begin - first + i));
      map_->check_finite(sets);
    }
  }

  Index tile_sets() const override { return 1; }
  Index largest_block() const override { return rows_of_block(map_->columns(), sizeof(T)); }
  bool wants_all_threads() const override { return true; }
  double packed_bytes() const override { return 0; }  // of the process
  double buffer_bytes(Index sets, int) const override {
    return sizeof(T) * static_cast<double>(sets * (max_keys_ + 1) * (model_.dim + 1)) + 2.0 * (1 << 24);
  }

 private:
  const Model& model_;
  Index max_keys_;
  std::unique_ptr<FeatureMap<T>> map_;
  DeviceArray<double> values_;  // V, in the order of the map
  mutable DeviceArray<T> phi_;  // of a block
};

// Where the map has the columns of the file.
template <class T>
DeviceArray<std::int64_t> order_of(const FeatureMap<T>& map) {
  std::vector<std::int64_t> out;
  for (Index m = 0; m < map.heads(); ++m)
    for (Index j = 0; j < map.width(); ++j) out.push_back(map.column_of(m, j));
  return DeviceArray<std::int64_t>::from(out);
}

// Features of sets on the device stay there.
template <class T>
Array features_of(const Model& model, const Sets& sets, const backend::Context& context) {
  const auto map = map_of<T>(model);
  const bool stay = sets.on_device();
  const Index n = sets.count(), columns = map->heads() * map->width();
  const MemoryBudget budget =
      stay ? MemoryBudget(context.execution, free_device_bytes()) : MemoryBudget(context.execution);
  budget.require(static_cast<double>(n) * static_cast<double>(columns) * sizeof(T),
                 join("the features of ", n, " sets"));
  const std::vector<double> table = table_of(model, sets);
  const DeviceArray<std::int64_t> order = order_of(*map);
  const Index step = std::min(n, rows_of_block(map->columns(), sizeof(T)));
  DeviceArray<T> block(step * map->columns()), rows((stay ? n : step) * columns);
  Array out = stay ? Array() : Array(dtype_of<T>(), {n, columns});
  for (Index first = 0; first < n; first += step) {
    context.execution.check_cancelled();
    context.execution.report("features", static_cast<double>(first), static_cast<double>(n));
    const Index count = std::min(step, n - first);
    map->compute(pack_tokens<T>(sets, first, first + count, table, context.threads), 0, count, block.data());
    T* here = rows.data() + (stay ? first * columns : 0);
    take_columns(block.data(), count, map->columns(), order.data(), columns, here);
    if (!stay)
      download_large(here, static_cast<std::size_t>(count * columns) * sizeof(T),
                     out.data<T>() + first * columns, context.threads);
  }
  map->check_finite(sets);
  return stay ? give(std::move(rows), {n, columns}) : out;
}

}  // namespace

std::unique_ptr<backend::Scorer> make_head_scorer(const Model& model, Index max_keys) {
  if (model.features.precision == Precision::f32) return std::make_unique<HeadScorer<float>>(model, max_keys);
  return std::make_unique<HeadScorer<double>>(model, max_keys);
}

Array head_features(const Model& model, const Sets& sets, const backend::Context& context) {
  return model.features.precision == Precision::f32 ? features_of<float>(model, sets, context)
                                                    : features_of<double>(model, sets, context);
}

}  // namespace headlens::cuda

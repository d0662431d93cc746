#include "cpu/features/feature_map.hpp"
#include "cpu/features/rfa.hpp"
#include "cpu/scorers/scorers.hpp"

namespace headlens::cpu {
namespace {

template <class T>
class HeadScorer final : public backend::Scorer {
 public:
  HeadScorer(const Model& model, Index max_keys)
      : model_(model),
        max_keys_(max_keys),
        map_(FeatureMap<T>::make(model.features, model.dim, model.keys, model.heads)),
        values_(Matrix<double>::zeros(model.outputs, map_->columns())) {
    for (Index m = 0; m < map_->heads(); ++m)
      for (Index j = 0; j < map_->width(); ++j)
        for (Index c = 0; c < model.outputs; ++c)
          values_(c, map_->column_of(m, j)) = model.values.at((m * map_->width() + j) * model.outputs + c);
  }

  void multiply(const Sets& sets, Index first, Index last, MatrixView<double> out, int) const override {
    map_->multiply(sets, first, last, values_, out);
  }

  Index tile_sets() const override { return map_->tile_sets(); }
  Index largest_block() const override { return 16 * tile_sets(); }
  bool wants_all_threads() const override { return false; }
  double packed_bytes() const override {
    return static_cast<double>(model_.heads.size()) * sizeof(T) +
           8.0 * static_cast<double>(values_.rows() * values_.cols());
  }
  // A tile: its tokens, packed and, for mlp, in rows; one block of features; the sums.
  double buffer_bytes(Index, int threads) const override {
    const double tokens = static_cast<double>(max_keys_ + 1) * static_cast<double>(model_.dim + 1);
    const double a_set = sizeof(T) * (2 * tokens + static_cast<double>(map_->block_columns())) +
                         8.0 * kLanes * static_cast<double>(model_.outputs);
    const double scratch =
        sizeof(T) * static_cast<double>(map_->block_columns() * kGroup + max_keys_ * kLanes);
    return threads * (static_cast<double>(tile_sets()) * a_set + scratch);
  }

 private:
  const Model& model_;
  Index max_keys_;
  std::unique_ptr<HeadMap<T>> map_;
  Matrix<double> values_;  // V^T, columns in the order of the map
};

}  // namespace

std::unique_ptr<backend::Scorer> make_head_scorer(const Model& model, Index max_keys) {
  if (model.features.precision == Precision::f32) return std::make_unique<HeadScorer<float>>(model, max_keys);
  return std::make_unique<HeadScorer<double>>(model, max_keys);
}

}  // namespace headlens::cpu

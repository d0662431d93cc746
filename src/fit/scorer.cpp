#include "fit/scorer.hpp"

#include <algorithm>
#include <cmath>

#include "base/parallel.hpp"
#include "features/feature_map.hpp"
#include "features/lane_sums.hpp"
#include "headlens/error.hpp"
#include "kernels/closed_form.hpp"
#include "kernels/support.hpp"
#include "linalg/tiles.hpp"

namespace headlens {
namespace {

template <class T>
class HeadScorer final : public Scorer {
 public:
  HeadScorer(const Model& model, Index max_keys)
      : Scorer(model),
        max_keys_(max_keys),
        map_(FeatureMap<T>::make(model.features, model.dim, model.keys, model.heads)),
        values_(Matrix<double>::zeros(model.outputs, map_->columns())) {
    for (Index m = 0; m < map_->heads(); ++m)
      for (Index j = 0; j < map_->width(); ++j)
        for (Index c = 0; c < model.outputs; ++c)
          values_(c, map_->column_of(m, j)) = model.values.at((m * map_->width() + j) * model.outputs + c);
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
  void multiply(const Sets& sets, Index first, Index last, MatrixView<double> out,
                const Execution&) const override {
    map_->multiply(sets, first, last, values_, out);
  }

  Index max_keys_;
  std::unique_ptr<HeadMap<T>> map_;
  Matrix<double> values_;  // V^T, columns in the order of the map
};

class KernelScorer final : public Scorer {
 public:
  KernelScorer(const Model& model, Index max_keys)
      : Scorer(model),
        max_keys_(max_keys),
        support_(sets_of(model.support)),
        kernel_(model.features, false),
        values_(Matrix<double>::zeros(model.outputs, padded_support())) {
    for (Index i = 0; i < support_.count(); ++i)
      for (Index c = 0; c < model.outputs; ++c) values_(c, i) = model.values.at(i * model.outputs + c);
  }

  Index tile_sets() const override { return 64; }  // a multiple of every tile of the kernel
  // Some 2^22 entries of the kernel are held at once.
  Index largest_block() const override {
    return std::max<Index>(1, (Index{1} << 22) / (padded_support() * tile_sets())) * tile_sets();
  }
  bool wants_all_threads() const override { return true; }
  double packed_bytes() const override {
    return static_cast<double>(support_.query().bytes() + support_.keys().bytes()) +
           8.0 * static_cast<double>(values_.rows() * values_.cols());
  }
  double buffer_bytes(Index sets, int threads) const override {
    const TokenSource right(support_, model_.features.kind, Positions::none, model_.features.precision);
    const double scores = 8.0 * static_cast<double>(sets * padded_support());
    const double lanes = 8.0 * kLanes * static_cast<double>(sets * model_.outputs);
    // The tiles of the sets to come are as large as those of the support, or have 512 keys.
    const double tiles = 8.0 * threads * 2 * static_cast<double>(std::max<Index>(512, max_keys_)) *
                         static_cast<double>(model_.dim + 64);
    return scores + lanes + tiles + 2 * kernel_.buffer_bytes(right, right, threads);
  }

 private:
  Index padded_support() const { return tile_count(support_.count(), kLanes) * kLanes; }

  void multiply(const Sets& sets, Index first, Index last, MatrixView<double> out,
                const Execution& execution) const override {
    const FeatureOptions& f = model_.features;
    const TokenSource left(sets, f.kind, f.positions, f.precision, max_keys_);
    const TokenSource right(support_, f.kind, Positions::none, f.precision);
    Matrix<double> entries = Matrix<double>::zeros(last - first, padded_support());
    kernel_.compute(left, first, last, right, entries.view().block(0, 0, last - first, support_.count()),
                    execution);
    LaneSums<double> sums(simd_level(), last - first, out.cols);
    sums.add(entries.data(), entries.cols(), values_);
    sums.write(out);
  }

  Index max_keys_;
  Sets support_;
  ClosedFormKernel kernel_;
  Matrix<double> values_;  // a^T, padded to whole lanes
};

}  // namespace

std::unique_ptr<Scorer> Scorer::make(const Model& model, Index max_keys) {
  if (model.features.infinite()) return std::make_unique<KernelScorer>(model, max_keys);
  if (model.features.precision == Precision::f32) return std::make_unique<HeadScorer<float>>(model, max_keys);
  return std::make_unique<HeadScorer<double>>(model, max_keys);
}

void Scorer::score(const Sets& sets, Index first, Index last, MatrixView<double> out,
                   const Execution& execution) const {
  multiply(sets, first, last, out, execution);
  for (Index i = 0; i < out.rows; ++i)
    for (Index c = 0; c < out.cols; ++c) {
      out(i, c) += model_.intercept.at(c);
      require(std::isfinite(out(i, c)), sets.name(), ": the predictions overflow: scale the tokens down");
    }
}

}  // namespace headlens

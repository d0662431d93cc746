#include <algorithm>

#include "cpu/features/lane_products.hpp"
#include "cpu/kernels/closed_form.hpp"
#include "cpu/scorers/scorers.hpp"
#include "features/kept_sets.hpp"
#include "linalg/tiles.hpp"

namespace headlens::cpu {
namespace {

class KernelScorer final : public backend::Scorer {
 public:
  KernelScorer(const Model& model, Index max_keys)
      : model_(model),
        max_keys_(max_keys),
        support_(sets_of(model.support)),
        kernel_(model.features, false),
        values_(Matrix<double>::zeros(model.outputs, padded_support())) {
    for (Index i = 0; i < support_.count(); ++i)
      for (Index c = 0; c < model.outputs; ++c) values_(c, i) = model.values.at(i * model.outputs + c);
  }

  void multiply(const Sets& sets, Index first, Index last, MatrixView<double> out,
                int threads) const override {
    const FeatureOptions& f = model_.features;
    const TokenSource left(sets, f.kind, f.positions, f.precision, max_keys_);
    const TokenSource right(support_, f.kind, Positions::none, f.precision);
    Matrix<double> entries = Matrix<double>::zeros(last - first, padded_support());
    kernel_.compute(left, first, last, right, entries.view().block(0, 0, last - first, support_.count()),
                    {.threads = threads});
    LaneProducts<double> sums(simd_level(), last - first, out.cols);
    sums.add(entries.data(), entries.cols(), values_);
    sums.write(out);
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

  const Model& model_;
  Index max_keys_;
  Sets support_;
  ClosedFormKernel kernel_;
  Matrix<double> values_;  // a^T, padded to whole lanes
};

}  // namespace

std::unique_ptr<backend::Scorer> make_kernel_scorer(const Model& model, Index max_keys) {
  return std::make_unique<KernelScorer>(model, max_keys);
}

}  // namespace headlens::cpu

#include <algorithm>

#include "cuda/kernels/closed_form.hpp"
#include "cuda/products/products.hpp"
#include "cuda/scorers/scorers.hpp"
#include "features/kept_sets.hpp"
#include "headlens/error.hpp"

namespace headlens::cuda {
namespace {

class KernelScorer final : public backend::Scorer {
 public:
  explicit KernelScorer(const Model& model)
      : model_(model),
        support_(sets_of(model.support)),
        // Positions of the sets that the model keeps are already added.
        right_(make_side(support_, 0, support_.count(), model.features, Positions::none, 1)),
        values_(DeviceArray<double>::from(model.values.to_doubles())) {}

  void multiply(const Sets& sets, Index first, Index last, MatrixView<double> out,
                int threads) const override {
    const FeatureOptions& f = model_.features;
    const Index step = largest_block(), m = support_.count(), q = out.cols;
    for (Index begin = first; begin < last; begin += step) {
      const Index count = std::min(step, last - begin);
      const KernelSide left = make_side(sets, begin, begin + count, f, f.positions, threads);
      DeviceArray<double> entries(count * m), scores(count * q);
      DeviceArray<int> overflow(1);
      overflow.clear();
      closed_form(left, right_, false, form_of(f), 0, count, entries.data(), overflow.data());
      add_forward(entries.data(), count, m, values_.data(), q, scores.data());
      const std::vector<double> found = scores.to_host();
      for (Index i = 0; i < count; ++i) std::copy_n(found.data() + i * q, q, out.row(begin - first + i));
      require(overflow.to_host()[0] == 0, sets.name(), ": the kernel overflows: scale the tokens down");
    }
  }

  Index tile_sets() const override { return 1; }
  Index largest_block() const override {  // some 2^26 entries of the kernel
    return std::clamp<Index>((Index{1} << 26) / std::max<Index>(1, support_.count()), 16, 1 << 16);
  }
  bool wants_all_threads() const override { return true; }
  double packed_bytes() const override { return side_bytes(support_, model_.features); }
  double buffer_bytes(Index sets, int) const override {
    return packed_bytes() * static_cast<double>(sets) / static_cast<double>(support_.count());
  }

 private:
  const Model& model_;
  Sets support_;
  KernelSide right_;
  DeviceArray<double> values_;
};

}  // namespace

std::unique_ptr<backend::Scorer> make_kernel_scorer(const Model& model) {
  return std::make_unique<KernelScorer>(model);
}

}  // namespace headlens::cuda

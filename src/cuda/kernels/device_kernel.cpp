#include "cuda/kernels/device_kernel.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/memory.hpp"
#include "cuda/design/device_gram.hpp"
#include "cuda/design/symmetric_kernels.hpp"
#include "cuda/kernels/closed_form.hpp"
#include "cuda/products/products.hpp"
#include "cuda/staging.hpp"
#include "headlens/error.hpp"

namespace headlens::cuda {
namespace {

constexpr double kSlabBytes = 1 << 30;  // of the result, computed and fetched at a time

void require_finite(const DeviceArray<int>& overflow, const Sets& sets, Score score) {
  if (overflow.to_host()[0] == 0) return;
  throw Error(ErrorCode::misuse, message(sets.name(), ": the kernel overflows: scale the tokens down",
                                         score == Score::exp ? message(" or lower ", option("weight-scale"))
                                                             : Text(" (standardise them)")));
}

DeviceArray<int> no_overflow() {
  DeviceArray<int> out(1);
  out.clear();
  return out;
}

class DeviceKernel final : public backend::ClosedKernel {
 public:
  DeviceKernel(const Sets& a, const Sets* b, const FeatureOptions& f, const backend::Context& context)
      : a_(a), b_(b), features_(f), form_(form_of(f)), context_(context) {}

  std::string method() const override { return name(form_); }
  double buffer_bytes() const override {  // sides are packed here before they travel
    return side_bytes(a_, features_) + (b_ ? side_bytes(*b_, features_) : 0.0);
  }
  void compute(Array& out) const override {
    out.dtype() == DType::f32 ? fill(out.data<float>()) : fill(out.data<double>());
  }

 private:
  template <class T>
  void fill(T* out) const {
    const Index rows = a_.count(), cols = b_ ? b_->count() : rows;
    const double row_bytes = static_cast<double>(cols) * sizeof(T);
    const double whole = static_cast<double>(rows) * row_bytes;
    const MemoryBudget budget(context_.execution, free_device_bytes());
    // Each pair once, if the symmetric matrix fits.
    const bool at_once = !b_ && budget.fits(whole + buffer_bytes());
    const Index step = std::max<Index>(1, static_cast<Index>(kSlabBytes / row_bytes) / kPairTile) * kPairTile;
    const Index held = at_once ? rows : std::min(step, rows);
    budget.require(buffer_bytes() + static_cast<double>(held) * row_bytes, "the kernel on the device");
    const KernelSide left = side(a_), right = b_ ? side(*b_) : KernelSide();
    DeviceArray<T> block(held * cols);
    DeviceArray<int> overflow = no_overflow();
    for (Index first = 0; first < rows; first += held) {
      context_.execution.check_cancelled();
      context_.execution.report("kernel", static_cast<double>(first), static_cast<double>(rows));
      const Index count = std::min(held, rows - first);
      closed_form(left, b_ ? right : left, !b_, form_, first, count, block.data(), overflow.data());
      require_finite(overflow, a_, features_.score);
      download_large(block.data(), static_cast<std::size_t>(count * cols) * sizeof(T), out + first * cols,
                     context_.threads);
    }
  }

  KernelSide side(const Sets& sets) const {
    return make_side(sets, 0, sets.count(), features_, features_.positions, context_.threads);
  }

  const Sets& a_;
  const Sets* b_;
  FeatureOptions features_;
  Form form_;
  backend::Context context_;
};

}  // namespace

std::unique_ptr<backend::ClosedKernel> make_kernel(const Sets& a, const Sets* b,
                                                   const FeatureOptions& features,
                                                   const backend::Context& context) {
  return std::make_unique<DeviceKernel>(a, b, features, context);
}

backend::KernelGram make_kernel_gram(const backend::FeatureSource& source, MatrixView<const double> targets,
                                     const backend::Context& context) {
  const FeatureOptions& f = source.features;
  const Index n = source.sets.count();
  const KernelSide side = make_side(source.sets, 0, n, f, f.positions, context.threads);
  DeviceArray<double> kernel(n * n);
  DeviceArray<int> overflow = no_overflow();
  closed_form(side, side, true, form_of(f), 0, n, kernel.data(), overflow.data());
  require_finite(overflow, source.sets, f.score);
  backend::KernelGram out{nullptr, std::vector<double>(static_cast<std::size_t>(n), 0.0)};
  if (source.centre) {
    DeviceArray<double> ones =
        DeviceArray<double>::from(std::vector<double>(static_cast<std::size_t>(n), 1.0));
    DeviceArray<double> sums(n);
    add_forward(kernel.data(), n, n, ones.data(), 1, sums.data());
    out.means = sums.to_host();
    for (double& mean : out.means) mean /= static_cast<double>(n);
    const double all = std::accumulate(out.means.begin(), out.means.end(), 0.0) / static_cast<double>(n);
    subtract_means_twice(kernel.data(), n, DeviceArray<double>::from(out.means).data(), all);
  }
  auto equations = std::make_shared<Equations>();
  equations->intercept = source.centre;
  equations->targets = targets;
  equations->epsilon = std::numeric_limits<double>::epsilon();
  out.gram = std::make_unique<DeviceGram<double>>(Symmetric<double>(std::move(kernel), n),
                                                  std::move(equations), context);
  require(std::isfinite(out.gram->trace()), source.sets.name(),
          ": the squares of the features overflow: scale the tokens down (standardise them)");
  return out;
}

}  // namespace headlens::cuda

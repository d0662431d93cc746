#include "cuda/machine.hpp"

#include "cuda/arrays.hpp"
#include "cuda/design/head_design.hpp"
#include "cuda/kernels/device_kernel.hpp"
#include "cuda/layer/factor_descent.hpp"
#include "cuda/layer/factor_problem.hpp"
#include "cuda/memory.hpp"
#include "cuda/scorers/scorers.hpp"
#include "headlens/error.hpp"

namespace headlens::cuda {
namespace {

using backend::Context;
using backend::FeatureSource;

void refuse_checkpoints(const Context& context) {
  if (context.execution.checkpoint.folder.empty()) return;
  throw Error(ErrorCode::environment, message(option("backend"), ": cuda keeps no checkpoints: leave out ",
                                              option("checkpoint"), ", or ask for cpu"));
}

// A stream belongs to the device that a thread first worked on; kernels are launched on the current one.
int current_device() {
  const int opened = device().number;
  int current = 0;
  check(cudaGetDevice(&current));
  require(current == opened, option("backend"), ": cuda: headlens works on cuda:", opened,
          " in this thread, and cuda:", current, " is the current device: make cuda:", opened,
          " the current one before the call, as torch.cuda.set_device(", opened,
          ") does, or start the program with CUDA_VISIBLE_DEVICES=", current);
  return opened;
}

// Centres, products of features for kernels without a closed form, and recoveries among all entries of Theta
// are the processor's: the base class says so.
class Machine final : public backend::Backend {
 public:
  std::string_view name() const override { return "cuda"; }

  std::unique_ptr<backend::Design> make_design(const FeatureSource& source, const Array& heads,
                                               const Context& context) override {
    refuse_checkpoints(context);
    return make_head_design(source, heads, context);
  }
  backend::KernelGram make_kernel_gram(const FeatureSource& source, MatrixView<const double> targets,
                                       const Context& context) override {
    refuse_checkpoints(context);
    return cuda::make_kernel_gram(source, targets, context);
  }
  double columns(const FeatureOptions& features, Index dim, Index) const override {
    return static_cast<double>(head_columns(features, dim));
  }
  double bytes(const backend::Route& route, const backend::Shape& shape, int) const override {
    return route_bytes(route, shape);
  }
  int device_number() const override { return current_device(); }
  std::shared_ptr<const DeviceMemory> borrow(std::shared_ptr<void> address,
                                             std::size_t bytes) const override {
    return cuda::borrow(std::move(address), bytes);
  }
  std::uint64_t free_bytes() const override { return free_device_bytes(); }
  double held_features_bytes() const override { return 0x1p60; }  // memory is what limits them, not habit

  std::unique_ptr<backend::Scorer> make_scorer(const Model& model, Index max_keys) override {
    return model.features.infinite() ? make_kernel_scorer(model) : make_head_scorer(model, max_keys);
  }
  Array features(const Model& model, const Sets& sets, const Context& context) override {
    return model.features.infinite() ? Backend::features(model, sets, context)
                                     : head_features(model, sets, context);
  }
  std::unique_ptr<backend::ClosedKernel> make_kernel(const Sets& a, const Sets* b,
                                                     const FeatureOptions& features, bool,
                                                     const Context& context) override {
    return cuda::make_kernel(a, b, features, context);
  }
  bool recovers_all_entries() const override { return false; }
  bool recovers_from_a_part() const override { return true; }
  std::unique_ptr<backend::LayerProblem> make_factor_problem(const backend::LayerExamples& examples,
                                                             const backend::HeadRanks& ranks,
                                                             const Context& context) override {
    return cuda::make_factor_problem(examples, ranks, context);
  }
  std::unique_ptr<backend::FactorDescent> make_factor_descent(const backend::LayerExamples& examples,
                                                              const backend::HeadRanks& ranks,
                                                              const backend::FactorValues& start,
                                                              const Context& context) override {
    return cuda::make_factor_descent(examples, ranks, start, context);
  }
  Matrix<double> apply_factors(const backend::LayerExamples& examples, const backend::HeadRanks& ranks,
                               const backend::FactorValues& values, const Context& context) override {
    return cuda::apply_factors(examples, ranks, values, context.threads);
  }
  double factor_squares(const backend::LayerExamples& examples, const backend::HeadRanks& ranks,
                        const backend::FactorValues& values, const Context& context) override {
    return cuda::factor_squares(examples, ranks, values, context.threads);
  }
};

}  // namespace

backend::Backend& machine() {
  static auto* const instance = new Machine;  // kept, as all of the device is
  return *instance;
}

}  // namespace headlens::cuda

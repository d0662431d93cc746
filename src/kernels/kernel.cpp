// sets -> the kernel of a model with infinitely many heads
#include "headlens/kernel.hpp"

#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "features/heads.hpp"
#include "headlens/error.hpp"
#include "kernels/closed_form.hpp"
#include "kernels/monte_carlo.hpp"

namespace headlens {
namespace {

bool has_closed_form(const FeatureOptions& features) {
  return features.score != Score::softmax && !features.head_rank;
}

void check_sets(const Sets& a, const Sets& b, const FeatureOptions& options) {
  require(a.dim() == b.dim(), b.name(), ": tokens have ", b.dim(), " coordinates, those of ", a.name(),
          " have ", a.dim());
  if (options.kind != ModelKind::mlp) {
    (void)mean_matrix(options, a.dim());  // refuses a mean of another size
    return;
  }
  for (const Sets* sets : {&a, &b})
    require(sets->equal_sizes() && sets->keys_of(0) == a.keys_of(0), sets->name(),
            ": mlp needs sets of equal size, found ", a.keys_of(0), " keys and ", sets->max_keys(),
            " (rfa and brfa take ragged sets)");
}

Kernel compute(const Sets& a, const Sets* b, const KernelOptions& options, const Execution& execution) {
  const Heed heeding(execution);
  options.validate();
  const Sets& right = b ? *b : a;
  check_sets(a, right, options.features);
  const FeatureOptions features = with_default_scales(options.features, a.keys_of(0));
  if (!has_closed_form(features)) return monte_carlo_kernel(a, b, features, execution);

  const ClosedFormKernel closed_form(features, options.exact);
  const TokenSource left(a, features.kind, features.positions, features.precision);
  const TokenSource other(right, features.kind, features.positions, features.precision);
  const bool single = features.precision == Precision::f32;
  const double entries = static_cast<double>(a.count()) * static_cast<double>(right.count());
  const double data = static_cast<double>(a.query().bytes() + a.keys().bytes()) +
                      (b ? static_cast<double>(b->query().bytes() + b->keys().bytes()) : 0.0);
  MemoryBudget(execution).require(
      entries * (single ? 4 : 8) + data + closed_form.buffer_bytes(left, other, thread_count(execution)),
      join("the kernel of ", a.count(), " by ", right.count(), " sets"));
  Kernel kernel{
      Array(single ? DType::f32 : DType::f64, {a.count(), right.count()}), closed_form.method(), {}};
  const auto fill = [&]<class T>(T* data_out) {
    const MatrixView<T> out(data_out, a.count(), right.count());
    if (b)
      closed_form.compute(left, 0, a.count(), other, out, execution);
    else
      closed_form.compute_symmetric(left, out, execution);
  };
  single ? fill(kernel.values.data<float>()) : fill(kernel.values.data<double>());
  return kernel;
}

}  // namespace

void KernelOptions::validate() const {
  features.validate();
  require(has_closed_form(features) || features.heads >= 2 * kBatches, option("samples"), ": ",
          features.heads, " given, expected ", 2 * kBatches,
          " or more heads, or there is no estimate of the error");
}

Kernel attention_kernel(const Sets& sets, const KernelOptions& options, const Execution& execution) {
  return compute(sets, nullptr, options, execution);
}

Kernel attention_kernel(const Sets& a, const Sets& b, const KernelOptions& options,
                        const Execution& execution) {
  return compute(a, &b, options, execution);
}

}  // namespace headlens

// sets -> the kernel of a model with infinitely many heads
#include "headlens/kernel.hpp"

#include <cmath>

#include "backend/backend.hpp"
#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "comm/gather_rows.hpp"
#include "features/heads.hpp"
#include "headlens/error.hpp"
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

// The rows of this rank.
Kernel compute_part(const Sets& a, const Sets* b, const KernelOptions& options, const Execution& execution) {
  const Heed heeding(execution);
  options.validate();
  const Sets& right = b ? *b : a;
  check_sets(a, right, options.features);
  const FeatureOptions features = with_default_scales(options.features, a.whole().first_keys);
  if (!has_closed_form(features)) return monte_carlo_kernel(a, b, features, execution);

  const backend::Context context = backend::context_of(execution);
  const auto closed_form = context.machine.make_kernel(a, b, features, options.exact, context);
  const DType type = features.precision == Precision::f32 ? DType::f32 : DType::f64;
  const double entries = static_cast<double>(a.count()) * static_cast<double>(right.count());
  const double data = a.host_bytes() + (b ? b->host_bytes() : 0.0);
  MemoryBudget(execution).require(
      entries * static_cast<double>(item_bytes(type)) + data + closed_form->buffer_bytes(),
      join("the kernel of ", a.count(), " by ", right.count(), " sets"));
  Kernel kernel{Array(type, {a.count(), right.count()}), closed_form->method(), {}};
  closed_form->compute(kernel.values);
  return kernel;
}

// On rank 0 all rows, and the standard error of all entries.
Kernel compute(const Sets& a, const Sets* b, const KernelOptions& options, const Execution& execution) {
  comm::Communicator& ranks = comm::world();
  Kernel kernel = compute_part(a, b, options, execution);
  if (ranks.alone()) return kernel;
  const double columns = static_cast<double>(kernel.values.dim(1)),
               rows = static_cast<double>(a.whole().count);
  const double all = rows * columns * static_cast<double>(item_bytes(kernel.values.dtype()));
  ranks.together([&] {
    const auto part = static_cast<double>(kernel.values.bytes());
    if (ranks.rank() == 0)
      MemoryBudget(execution).require(all + part,
                                      join("the kernel of ", rows, " by ", columns, " sets on rank 0"));
  });
  if (kernel.standard_error) {
    const double variance = std::pow(*kernel.standard_error, 2) * static_cast<double>(a.count());
    kernel.standard_error = std::sqrt(ranks.sum(variance) / rows);
  }
  kernel.values = comm::gather_rows_on_first(kernel.values, ranks);
  return kernel;
}

}  // namespace

void KernelOptions::validate() const {
  features.validate();
  require(has_closed_form(features) || features.heads >= 2 * kBatches, option("samples"), ": ",
          features.heads, " given, expected ", 2 * kBatches,
          " or more heads, or there is no estimate of the error");
  require(!exact || has_closed_form(features), option("exact"), ": given, but the kernel of ",
          features.head_rank ? "heads of a given rank" : "softmax scores",
          " has no closed form and is estimated from drawn heads; leave the option out, and raise the number "
          "of samples for a smaller error");
}

Kernel attention_kernel(const Sets& sets, const KernelOptions& options, const Execution& execution) {
  return compute(sets, nullptr, options, execution);
}

Kernel attention_kernel(const Sets& a, const Sets& b, const KernelOptions& options,
                        const Execution& execution) {
  return compute(a, &b, options, execution);
}

}  // namespace headlens

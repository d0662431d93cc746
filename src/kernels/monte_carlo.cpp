#include "kernels/monte_carlo.hpp"

#include <algorithm>
#include <cmath>

#include "backend/backend.hpp"
#include "base/memory.hpp"
#include "features/heads.hpp"
#include "headlens/error.hpp"

namespace headlens {
namespace {

// Sums over batches, for every entry: of the products, and of their squares divided by the batch's heads.
struct Sums {
  Matrix<double> products, squares;
};

void add(MatrixView<const double> batch, double heads, Sums& sums, bool symmetric) {
  for (Index i = 0; i < batch.rows; ++i)
    for (Index j = 0; j < (symmetric ? i + 1 : batch.cols); ++j) {
      sums.products(i, j) += batch(i, j);
      sums.squares(i, j) += batch(i, j) * batch(i, j) / heads;
    }
}

void put(Array& array, Index flat, double value) {
  if (array.dtype() == DType::f32)
    array.data<float>()[flat] = static_cast<float>(value);
  else
    array.data<double>()[flat] = value;
}

Kernel finish(const Sums& sums, double heads, Index batches, bool symmetric, Precision precision) {
  const Index rows = sums.products.rows(), cols = sums.products.cols();
  Kernel kernel;
  kernel.values = Array(precision == Precision::f32 ? DType::f32 : DType::f64, {rows, cols});
  double variance = 0;
  for (Index i = 0; i < rows; ++i)
    for (Index j = 0; j < (symmetric ? i + 1 : cols); ++j) {
      const double value = sums.products(i, j) / heads;
      const double spread = std::max(0.0, sums.squares(i, j) / heads - value * value);
      variance += (symmetric && i != j ? 2 : 1) * spread / static_cast<double>(batches - 1);
      put(kernel.values, i * cols + j, value);
      if (symmetric) put(kernel.values, j * cols + i, value);
    }
  kernel.standard_error = std::sqrt(variance / static_cast<double>(rows * cols));
  return kernel;
}

}  // namespace

Kernel monte_carlo_kernel(const Sets& a, const Sets* b, const FeatureOptions& given,
                          const Execution& execution) {
  FeatureOptions options = given;
  options.precision = Precision::f64;
  const double entries = static_cast<double>(a.count()) * static_cast<double>(b ? b->count() : a.count());
  MemoryBudget(execution).require(
      8 * (4 * entries + 3 * backend::HeadProducts::kHeldFeatures) + 2 * 8 * head_items(options, a.dim(), 0),
      join("the kernel of ", a.count(), " by ", b ? b->count() : a.count(), " sets"));
  const backend::Context context = backend::context_of(execution);
  const Array heads = draw_heads(options, a.dim(), 0, context.threads);
  const auto products = context.machine.make_head_products(a, b, options, heads, context);
  const Index cols = b ? b->count() : a.count();
  Sums sums{Matrix<double>::zeros(a.count(), cols), Matrix<double>::zeros(a.count(), cols)};
  const Index batches = std::min(kBatches, products->blocks());
  const Index per_block = products->block_heads();
  for (Index k = 0; k < batches; ++k) {
    execution.check_cancelled();
    execution.report("heads", static_cast<double>(k), static_cast<double>(batches));
    const Index first = k * products->blocks() / batches, last = (k + 1) * products->blocks() / batches;
    const Index used = std::min(options.heads, last * per_block) - first * per_block;
    add(products->sum(first, last), static_cast<double>(used), sums, b == nullptr);
  }
  Kernel kernel = finish(sums, static_cast<double>(options.heads), batches, b == nullptr, given.precision);
  kernel.method = join("Monte Carlo over ", options.heads, " heads");
  return kernel;
}

}  // namespace headlens

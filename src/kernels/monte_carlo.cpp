#include "kernels/monte_carlo.hpp"

#include <algorithm>
#include <cmath>

#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "features/feature_map.hpp"
#include "features/heads.hpp"
#include "headlens/error.hpp"
#include "linalg/gram.hpp"
#include "linalg/multiply.hpp"
#include "linalg/tiles.hpp"

namespace headlens {
namespace {

constexpr double kFeatureItems = 1 << 22;  // features held at once: 32 MiB

// Sums over batches, for every entry: of the products, and of their squares divided by the batch's heads.
struct Sums {
  Matrix<double> products, squares;
};

class Estimate {
 public:
  Estimate(const Sets& a, const Sets* b, const FeatureMap<double>& map, int threads)
      : a_(a), b_(b), map_(map), threads_(threads) {
    const Index rows = a.count(), cols = b ? b->count() : rows;
    const double items = static_cast<double>((b ? rows + cols : rows) * map.block_columns());
    chunk_ = std::max<Index>(1, static_cast<Index>(kFeatureItems / items));
    batch_ = Matrix<double>(rows, cols);
  }

  // Sum over the heads of the column blocks [first, last); the lower triangle only for K(a, a).
  MatrixView<const double> batch(Index first, Index last) {
    std::fill_n(batch_.data(), batch_.rows() * batch_.cols(), 0.0);
    for (Index block = first; block < last; block += chunk_) {
      const Index end = std::min(last, block + chunk_);
      const Matrix<double> left = features(a_, block, end);
      if (b_)
        multiply(Trans::no, Trans::yes, 1.0, left, features(*b_, block, end), 1.0, batch_, threads_);
      else
        add_outer(left.view(), batch_, threads_);
    }
    return batch_.view();
  }

 private:
  Matrix<double> features(const Sets& sets, Index first, Index last) const {
    Matrix<double> out(sets.count(), (last - first) * map_.block_columns());
    map_.compute(sets, 0, sets.count(), first, last, out, threads_);
    return out;
  }

  const Sets& a_;
  const Sets* b_;
  const FeatureMap<double>& map_;
  int threads_;
  Index chunk_;
  Matrix<double> batch_;
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
      8 * (4 * entries + 3 * kFeatureItems) + 2 * feature_map_bytes(options, a.dim(), 0),
      join("the kernel of ", a.count(), " by ", b ? b->count() : a.count(), " sets"));
  const int threads = thread_count(execution);
  const Array heads = draw_heads(options, a.dim(), 0, threads);
  const auto map = FeatureMap<double>::make(options, a.dim(), 0, heads);
  Estimate estimate(a, b, *map, threads);
  const Index cols = b ? b->count() : a.count();
  Sums sums{Matrix<double>::zeros(a.count(), cols), Matrix<double>::zeros(a.count(), cols)};
  const Index batches = std::min(kBatches, map->blocks());
  const Index per_block = map->block_columns() / map->width();
  for (Index k = 0; k < batches; ++k) {
    execution.check_cancelled();
    execution.report("heads", static_cast<double>(k), static_cast<double>(batches));
    const Index first = k * map->blocks() / batches, last = (k + 1) * map->blocks() / batches;
    const Index used = std::min(options.heads, last * per_block) - first * per_block;
    add(estimate.batch(first, last), static_cast<double>(used), sums, b == nullptr);
  }
  Kernel kernel = finish(sums, static_cast<double>(options.heads), batches, b == nullptr, given.precision);
  kernel.method = join("Monte Carlo over ", options.heads, " heads");
  return kernel;
}

}  // namespace headlens

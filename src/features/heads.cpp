#include "features/heads.hpp"

#include <cmath>

#include "base/parallel.hpp"
#include "base/random.hpp"
#include "headlens/error.hpp"

namespace headlens {
namespace {

template <class T>
void draw_head(const FeatureOptions& options, Index head, Index rows, Index cols, T* out) {
  const bool mlp = options.kind == ModelKind::mlp;
  Stream stream(options.seed, mlp ? "neurons" : "heads", static_cast<std::uint64_t>(head));
  for (Index i = 0; i < rows; ++i)
    for (Index j = 0; j < cols; ++j) {
      const bool biased = !mlp && i == j && i + 1 < rows;
      const double mean = biased ? *options.bias_scale : 0.0;
      out[i * cols + j] = static_cast<T>(mean + *options.weight_scale * stream.normal());
    }
}

}  // namespace

FeatureOptions with_default_scales(FeatureOptions options, Index keys) {
  if (!options.bias_scale) options.bias_scale = options.kind == ModelKind::brfa ? 1.0 : 0.0;
  if (!options.weight_scale)
    options.weight_scale =
        options.kind == ModelKind::mlp ? 1.0 / std::sqrt(2.0 * (static_cast<double>(keys) + 1)) : 0.5;
  return options;
}

double head_items(const FeatureOptions& options, Index dim, Index keys) {
  const double extended = static_cast<double>(dim) + 1;
  const double rows = options.kind == ModelKind::mlp ? static_cast<double>(keys) + 1 : extended;
  return static_cast<double>(options.heads) * rows * extended;
}

Array draw_heads(const FeatureOptions& options, Index dim, Index keys, int threads) {
  const Index extended = dim + 1;
  const bool mlp = options.kind == ModelKind::mlp;
  const Index rows = mlp ? 1 : extended, cols = mlp ? (keys + 1) * extended : extended;
  const DType type = options.precision == Precision::f32 ? DType::f32 : DType::f64;
  Array heads(type,
              mlp ? std::vector<Index>{options.heads, cols} : std::vector<Index>{options.heads, rows, cols});
  constexpr Index kBlock = 64;
  parallel_for(threads, (options.heads + kBlock - 1) / kBlock, [&](Index block, int) {
    for (Index m = block * kBlock; m < std::min(options.heads, (block + 1) * kBlock); ++m) {
      if (type == DType::f32)
        draw_head(options, m, rows, cols, heads.data<float>() + m * rows * cols);
      else
        draw_head(options, m, rows, cols, heads.data<double>() + m * rows * cols);
    }
  });
  return heads;
}

}  // namespace headlens

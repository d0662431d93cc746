#include "features/heads.hpp"

#include <algorithm>
#include <cmath>

#include "base/parallel.hpp"
#include "base/random.hpp"
#include "headlens/error.hpp"

namespace headlens {
namespace {

// weight_scale times independent standard normal numbers.
void draw_independent(const FeatureOptions& options, Index head, std::vector<double>& out) {
  const bool mlp = options.kind == ModelKind::mlp;
  Stream stream(options.seed, mlp ? "neurons" : "heads", static_cast<std::uint64_t>(head));
  for (double& entry : out) entry = *options.weight_scale * stream.normal();
}

// weight_scale Q K^T / sqrt(r), Q and K (D, r). A column of both at a time: the first columns of a larger
// rank are those of a smaller one.
void draw_product(const FeatureOptions& options, Index head, Index rows, std::vector<double>& out) {
  Stream stream(options.seed, "head-factors", static_cast<std::uint64_t>(head));
  std::vector<double> query(static_cast<std::size_t>(rows)), key(query.size());
  std::fill(out.begin(), out.end(), 0.0);
  for (Index column = 0; column < *options.head_rank; ++column) {
    heed();
    for (double& entry : query) entry = stream.normal();
    for (double& entry : key) entry = stream.normal();
    for (std::size_t i = 0; i < query.size(); ++i)
      for (std::size_t j = 0; j < key.size(); ++j) out[i * key.size() + j] += query[i] * key[j];
  }
  const double scale = *options.weight_scale / std::sqrt(static_cast<double>(*options.head_rank));
  for (double& entry : out) entry *= scale;
}

}  // namespace

std::vector<double> mean_matrix(const FeatureOptions& options, Index dim) {
  const std::optional<Array>& given = options.mean;
  const Index extended = dim + 1, size = given ? given->dim(0) : dim;
  require(size == dim || size == extended, option("mean"), ": ", format_shape({size, size}),
          " given, expected ", format_shape({dim, dim}), " or ", format_shape({extended, extended}),
          " for tokens of ", dim, " coordinates");
  std::vector<double> mean(static_cast<std::size_t>(extended * extended), 0.0);
  for (Index i = 0; i < size; ++i)
    for (Index j = 0; j < size; ++j)
      mean[static_cast<std::size_t>(i * extended + j)] =
          given ? given->at(i * size + j) : (i == j ? 1.0 : 0.0);
  return mean;
}

double largest_mean(const FeatureOptions& options) {
  const double bias = std::abs(*options.bias_scale);
  if (!options.mean) return bias;
  double largest = 0;
  for (Index i = 0; i < options.mean->size(); ++i) largest = std::max(largest, std::abs(options.mean->at(i)));
  return bias * largest;
}

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
  const std::vector<double> mean = mlp ? std::vector<double>{} : mean_matrix(options, dim);
  constexpr Index kBlock = 64;
  parallel_for(threads, (options.heads + kBlock - 1) / kBlock, [&](Index block, int) {
    std::vector<double> head(static_cast<std::size_t>(rows * cols));
    for (Index m = block * kBlock; m < std::min(options.heads, (block + 1) * kBlock); ++m) {
      options.head_rank ? draw_product(options, m, rows, head) : draw_independent(options, m, head);
      for (std::size_t i = 0; i < mean.size(); ++i) head[i] += *options.bias_scale * mean[i];
      const Index to = m * rows * cols;
      if (type == DType::f32)
        std::copy(head.begin(), head.end(), heads.data<float>() + to);
      else
        std::copy(head.begin(), head.end(), heads.data<double>() + to);
    }
  });
  return heads;
}

}  // namespace headlens

// Random layers and examples of them.
#include <algorithm>
#include <cmath>

#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "base/random.hpp"
#include "headlens/error.hpp"
#include "headlens/layer.hpp"
#include "headlens/options.hpp"

namespace headlens {
namespace {

// rows x cols Gaussian, or a product of Gaussians of inner size `rank`, of unit variance.
std::vector<double> draw_matrix(Stream& stream, Index rows, Index cols, Index rank) {
  std::vector<double> out(static_cast<std::size_t>(rows * cols));
  if (rank == 0) {
    for (double& x : out) x = stream.normal();
    return out;
  }
  std::vector<double> left(static_cast<std::size_t>(rows * rank)),
      right(static_cast<std::size_t>(rank * cols));
  for (double& x : left) x = stream.normal();
  for (double& x : right) x = stream.normal();
  for (Index i = 0; i < rows; ++i)
    for (Index r = 0; r < rank; ++r)
      for (Index j = 0; j < cols; ++j)
        out[static_cast<std::size_t>(i * cols + j)] += left[static_cast<std::size_t>(i * rank + r)] *
                                                       right[static_cast<std::size_t>(r * cols + j)] /
                                                       std::sqrt(static_cast<double>(rank));
  return out;
}

}  // namespace

void TeacherOptions::validate() const {
  check_ranges(*this);
  require(rank <= dim, option("rank"), ": ", rank, " given, expected at most dim = ", dim, " (0: full)");
}

AttentionLayer draw_teacher(const TeacherOptions& options) {
  options.validate();
  const Index m = options.heads, d = options.dim, e = options.outputs > 0 ? options.outputs : d;
  AttentionLayer layer{Array(DType::f64, {m, d, d}), Array(DType::f64, {m, d, e})};
  for (Index i = 0; i < m; ++i) {
    Stream stream(options.seed, "teacher", static_cast<std::uint64_t>(i));
    const std::vector<double> theta = draw_matrix(stream, d, d, options.rank);
    double square = 0;
    for (const double x : theta) square += x * x;
    for (Index j = 0; j < d * d; ++j)
      layer.theta.data<double>()[i * d * d + j] =
          theta[static_cast<std::size_t>(j)] * options.scale / std::sqrt(square);
    const std::vector<double> w = draw_matrix(stream, d, e, std::min(options.rank, e));
    for (Index j = 0; j < d * e; ++j)
      layer.w.data<double>()[i * d * e + j] =
          w[static_cast<std::size_t>(j)] / std::sqrt(static_cast<double>(d));
  }
  return layer;
}

void ExampleOptions::validate() const { check_ranges(*this); }

Examples draw_examples(const AttentionLayer& layer, const ExampleOptions& options,
                       const Execution& execution) {
  const Heed heeding(execution);
  options.validate();
  const Index n = options.count, k = options.tokens, d = layer.dim();
  MemoryBudget(execution).require(
      8.0 * static_cast<double>(n) * static_cast<double>(k) * static_cast<double>(d + layer.outputs()),
      join("generating ", n, " examples"));
  Array x(DType::f64, {n, k, d});
  for (Index i = 0; i < n; ++i) {
    heed();
    Stream stream(options.seed, "examples", static_cast<std::uint64_t>(i));
    double* row = x.data<double>() + i * k * d;
    for (Index j = 0; j < k * d; ++j)
      row[j] = options.inputs == Inputs::signs ? (stream.below(2) == 0 ? -1.0 : 1.0) : stream.normal();
  }
  Array y = apply_layer(layer, x, execution);
  const Index per = k * layer.outputs();
  for (Index i = 0; options.noise > 0 && i < n; ++i) {
    heed();
    Stream stream(options.seed, "example-noise", static_cast<std::uint64_t>(i));
    for (Index j = 0; j < per; ++j) y.data<double>()[i * per + j] += options.noise * stream.normal();
  }
  return make_examples(std::move(x), std::move(y));
}

}  // namespace headlens

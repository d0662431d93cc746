// Random layers and examples of them.
#include <algorithm>
#include <cmath>

#include "attention/variant_file.hpp"
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

// Of Q and K with rotary positions.
Index rotary_rank(const TeacherOptions& options) {
  return options.rank > 0 ? options.rank : std::max<Index>(2, options.dim / options.heads);
}

void fill(Stream& stream, double deviation, Array& array) {
  for (Index i = 0; i < array.size(); ++i) array.data<double>()[i] = deviation * stream.normal();
}

// Q and K with |Q K^T|_F = scale: the deviation of the logits between tokens at the same place.
void draw_rotary(const TeacherOptions& options, AttentionLayer& layer) {
  const Index m = options.heads, d = options.dim, r = rotary_rank(options);
  layer.theta = Array();
  layer.q = Array(DType::f64, {m, d, r});
  layer.k = Array(DType::f64, {m, d, r});
  Stream stream(options.seed, "rotary teacher");
  fill(stream, 1, layer.q);
  fill(stream, 1, layer.k);
  for (Index i = 0; i < m; ++i) {
    double* q = layer.q.data<double>() + i * d * r;
    const double* k = layer.k.data<double>() + i * d * r;
    double squares = 0;
    for (Index a = 0; a < d; ++a)
      for (Index b = 0; b < d; ++b) {
        double sum = 0;
        for (Index j = 0; j < r; ++j) sum += q[a * r + j] * k[b * r + j];
        squares += sum * sum;
      }
    for (Index j = 0; j < d * r; ++j) q[j] *= options.scale / std::sqrt(squares);
  }
}

// What the variant adds to a plain layer, from streams of its own: Theta and W stay what they are without it.
void draw_variant(const TeacherOptions& options, AttentionLayer& layer) {
  layer.variant = options.variant();
  if (layer.variant.rotary) draw_rotary(options, layer);
  if (!layer.variant.bias) return;
  layer.query_bias = Array(DType::f64, {layer.heads(), layer.dim()});
  layer.constant = Array(DType::f64, {layer.outputs()});
  Stream stream(options.seed, "teacher's biases");
  fill(stream, 0.7, layer.query_bias);
  fill(stream, 1, layer.constant);
}

}  // namespace

LayerVariant TeacherOptions::variant() const {
  LayerVariant out{mask, bias};
  if (rotary != "none") out.rotary = read_rotary(rotary);
  return out;
}

void TeacherOptions::validate() const {
  check_ranges(*this);
  const LayerVariant kind = variant();
  require(!kind.rotary || kind.rotary->pairs(rotary_rank(*this)) > 0, option("rotary"), ": ", rotary,
          " given, but heads of rank ", rotary_rank(*this), " have no pair of columns to turn; raise ",
          option("rank"));
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
    const Index w_rank = options.rotary == "none" ? std::min(options.rank, e) : 0;
    const std::vector<double> w = draw_matrix(stream, d, e, w_rank);
    for (Index j = 0; j < d * e; ++j)
      layer.w.data<double>()[i * d * e + j] =
          w[static_cast<std::size_t>(j)] / std::sqrt(static_cast<double>(d));
  }
  draw_variant(options, layer);
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
  Array lengths(DType::i64, {n});
  Stream lengths_of(options.seed, "lengths");
  for (Index i = 0; i < n; ++i)
    lengths.data<std::int64_t>()[i] =
        options.padding ? 2 + static_cast<std::int64_t>(lengths_of.below(static_cast<std::uint64_t>(k - 1)))
                        : k;
  Array y = apply_layer(layer, Tokens{x, read_lengths(lengths, x, "examples")}, execution);
  const Index per = k * layer.outputs();
  for (Index i = 0; options.noise > 0 && i < n; ++i) {
    heed();
    Stream stream(options.seed, "example-noise", static_cast<std::uint64_t>(i));
    for (Index j = 0; j < per; ++j) y.data<double>()[i * per + j] += options.noise * stream.normal();
  }
  return make_examples(std::move(x), std::move(y), lengths);
}

}  // namespace headlens

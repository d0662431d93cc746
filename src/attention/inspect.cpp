#include "headlens/inspect.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "attention/attention_map.hpp"
#include "attention/magnitude.hpp"
#include "attention/packing.hpp"
#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "base/random.hpp"
#include "headlens/error.hpp"
#include "headlens/options.hpp"
#include "linalg/blas.hpp"
#include "linalg/eigen.hpp"
#include "linalg/tiles.hpp"

namespace headlens {
namespace {

constexpr std::array<double, 3> kEps{0.05, 0.1, 0.2};
constexpr double kSparse = 0.95;
constexpr double kNormal95 = 1.959963984540054;  // 97.5% quantile of the normal distribution
constexpr Index kInspectedRows = 256;            // rows that meet Theta in one product

const double* head_of(const Array& array, Index i) {
  return array.data<double>() + i * array.dim(1) * array.dim(2);
}

// From the eigenvalues of A A^T: a singular value that is zero comes out as 1e-8 of the largest, so those are
// cut.
double effective_rank(const std::vector<double>& theta, Index d) {
  Matrix<double> gram = Matrix<double>::zeros(d, d);
  syrk(Trans::no, 1.0, MatrixView<const double>(theta.data(), d, d), 0.0, gram.view());
  const SymmetricEigen eigen = symmetric_eigen(gram);
  ensure(eigen.ok(), "inspect: no eigenvalues of a finite ", d, " x ", d, " matrix");
  if (eigen.values.back() <= 0) return 0;
  const double floor = static_cast<double>(d) * 1e-16 * eigen.values.back();
  double sum = 0, squares = 0;
  for (const double value : eigen.values) {
    if (value <= floor) continue;
    sum += std::sqrt(value);
    squares += value;
  }
  return sum * sum / squares;
}

std::optional<HeadPair> closest_pair(const AttentionLayer& layer, const Execution& execution) {
  const Index size = layer.dim() * layer.dim();
  std::vector<Magnitude> norms;
  for (Index i = 0; i < layer.heads(); ++i) norms.push_back(norm_of(head_of(layer.theta, i), size));
  std::optional<HeadPair> best;
  for (Index a = 0; a < layer.heads(); ++a) {
    execution.check_cancelled();
    for (Index b = a + 1; b < layer.heads(); ++b) {
      const Magnitude &first = norms[static_cast<std::size_t>(a)],
                      &second = norms[static_cast<std::size_t>(b)];
      const Magnitude& larger = first.value() > second.value() ? first : second;
      const double distance =
          larger.mantissa > 0
              ? ratio(distance_of(head_of(layer.theta, a), head_of(layer.theta, b), size), larger)
              : 0;
      if (!best || distance < best->distance) best = {a, b, distance};
    }
  }
  return best;
}

// Rows counted so far, by what their heads do.
struct Counts {
  std::array<Index, kEps.size()> alike{};
  Index sparse_matched = 0;

  void add(const Counts& other) {
    for (std::size_t j = 0; j < kEps.size(); ++j) alike[j] += other.alike[j];
    sparse_matched += other.sparse_matched;
  }
};

// p: (m, k), the attention of one token by each head.
void count_row(MatrixView<const double> p, Counts& counts) {
  double widest = 0;
  for (Index i = 0; i < p.rows; ++i)
    for (Index j = i + 1; j < p.rows; ++j) {
      double sum = 0;
      for (Index b = 0; b < p.cols; ++b) sum += std::abs(p(i, b) - p(j, b));
      widest = std::max(widest, sum / 2);
    }
  for (std::size_t j = 0; j < kEps.size(); ++j) counts.alike[j] += widest <= kEps[j];
  const Index token = std::max_element(p.row(0), p.row(0) + p.cols) - p.row(0);
  bool matched = true;
  for (Index i = 0; i < p.rows; ++i) matched = matched && p(i, token) > kSparse;
  counts.sparse_matched += matched;
}

// Rows [tile): each is the first token of an input of its own.
Counts count_rows(MatrixView<const double> theta, Tile tile, Index heads, const InspectOptions& options) {
  const Index d = theta.rows, k = options.tokens;
  Matrix<double> x(tile.size * k, d), u(tile.size, heads * d), p(heads, k);
  for (Index r = 0; r < tile.size; ++r) {
    Stream stream(options.seed, "inspect", static_cast<std::uint64_t>(tile.begin + r));
    for (Index j = 0; j < k * d; ++j) x.data()[r * k * d + j] = stream.below(2) == 0 ? -1.0 : 1.0;
  }
  const MatrixView<const double> queries(x.data(), tile.size, d, k * d);
  gemm(Trans::no, Trans::no, 1.0, queries, theta, 0.0, u.view());
  Counts counts;
  for (Index r = 0; r < tile.size; ++r) {
    gemm(Trans::no, Trans::yes, 1.0, MatrixView<const double>(u.data() + r * heads * d, heads, d),
         MatrixView<const double>(x.data() + r * k * d, k, d), 0.0, p.view());
    for (Index i = 0; i < heads; ++i) softmax_row(p.data() + i * k, k);
    count_row(std::as_const(p).view(), counts);
  }
  return counts;
}

Agreement measure_agreement(const AttentionLayer& layer, const InspectOptions& options,
                            const Execution& execution) {
  const Matrix<double> theta = pack_theta(layer.theta);
  const int threads = thread_count(execution);
  const Index blocks = tile_count(options.samples, kInspectedRows);
  Counts total;
  for (Index first = 0; first < blocks; first += 4 * threads) {
    execution.check_cancelled();
    execution.report("attention", static_cast<double>(first), static_cast<double>(blocks));
    std::vector<Counts> counts(static_cast<std::size_t>(std::min<Index>(4 * threads, blocks - first)));
    parallel_for(threads, static_cast<Index>(counts.size()), [&](Index b, int) {
      counts[static_cast<std::size_t>(b)] =
          count_rows(theta, tile_at(options.samples, kInspectedRows, first + b), layer.heads(), options);
    });
    for (const Counts& here : counts) total.add(here);
  }
  Agreement agreement;
  for (std::size_t j = 0; j < kEps.size(); ++j)
    agreement.alike.push_back({kEps[j], wilson_share(total.alike[j], options.samples)});
  agreement.sparse_matched = wilson_share(total.sparse_matched, options.samples);
  return agreement;
}

// Logits are sums of d^2 entries of Theta. Beyond this size one token has all of the attention, whatever
// power of two Theta is divided by.
void keep_logits_finite(AttentionLayer& layer) {
  constexpr int kMostExponent = 900;
  const Index size = layer.dim() * layer.dim();
  for (Index i = 0; i < layer.heads(); ++i) {
    const int surplus = exponent_of(head_of(layer.theta, i), size) - kMostExponent;
    double* theta = layer.theta.data<double>() + i * size;
    for (Index j = 0; surplus > 0 && j < size; ++j) theta[j] = std::ldexp(theta[j], -surplus);
  }
}

std::vector<HeadSummary> summarise_heads(const AttentionLayer& layer, const Execution& execution) {
  const int threads = thread_count(execution);
  std::vector<HeadSummary> heads(static_cast<std::size_t>(layer.heads()));
  for (Index first = 0; first < layer.heads(); first += threads) {
    execution.check_cancelled();
    execution.report("heads", static_cast<double>(first), static_cast<double>(layer.heads()));
    parallel_for(threads, std::min<Index>(threads, layer.heads() - first), [&](Index i, int) {
      heads[static_cast<std::size_t>(first + i)] = summarise_head(layer, first + i);
    });
  }
  return heads;
}

void require_memory(const AttentionLayer& layer, const InspectOptions& options, const Execution& execution) {
  require_plain(layer, "inspection");
  const double m = static_cast<double>(layer.heads()), d = static_cast<double>(layer.dim()),
               e = static_cast<double>(layer.outputs()), k = static_cast<double>(options.tokens);
  const double threads = thread_count(execution), rows = static_cast<double>(kInspectedRows);
  // The canonical layer with its copies, the packed Theta; then eigenvalues, or blocks of rows, per thread.
  const double canonical_bytes = 8 * m * (3 * d * d + 2 * d * e);
  const double of_thread = 8 * std::max(6 * d * d, rows * d * (k + m) + m * k);
  MemoryBudget(execution).require(canonical_bytes + threads * of_thread,
                                  join("inspecting ", layer.heads(), " heads"));
}

}  // namespace

void InspectOptions::validate() const { check_ranges(*this); }

HeadSummary summarise_head(const AttentionLayer& layer, Index head) {
  const Index d = layer.dim();
  const Magnitude size = norm_of(head_of(layer.theta, head), d * d);
  const std::vector<double> theta = in_units(head_of(layer.theta, head), d * d, size.exponent);
  HeadSummary out{.scale = size.value(),
                  .effective_rank = effective_rank(theta, d),
                  .w_norm = norm_of(head_of(layer.w, head), d * layer.outputs()).value()};
  for (const auto& [norm, what] : {std::pair(out.scale, "Theta"), std::pair(out.w_norm, "W")})
    require(std::isfinite(norm), "head ", head, ": the norm of its ", what,
            " is beyond 1.8e308, the largest number that a double holds; divide ", what,
            " by a power of two first");
  double trace = 0, others = 0, deviation = 0;
  const auto entry = [&](Index i, Index j) { return theta[static_cast<std::size_t>(i * d + j)]; };
  for (Index i = 0; i < d; ++i)
    for (Index j = 0; j < d; ++j) (i == j ? trace : others) += entry(i, j);
  const double off_diagonal = static_cast<double>(d * (d - 1)), mean = d > 1 ? others / off_diagonal : 0;
  for (Index i = 0; i < d; ++i)
    for (Index j = 0; j < d; ++j)
      if (i != j) deviation += (entry(i, j) - mean) * (entry(i, j) - mean);
  out.diagonal_mean = std::ldexp(trace / static_cast<double>(d), size.exponent);
  out.off_diagonal_deviation = d > 1 ? std::ldexp(std::sqrt(deviation / off_diagonal), size.exponent) : 0;
  out.identity_cosine = size.mantissa > 0 ? trace / size.mantissa / std::sqrt(static_cast<double>(d)) : 0;
  return out;
}

Share wilson_share(Index hits, Index count) {
  const double n = static_cast<double>(count), p = static_cast<double>(hits) / n, z2 = kNormal95 * kNormal95;
  const double centre = (p + z2 / (2 * n)) / (1 + z2 / n);
  const double reach = kNormal95 / (1 + z2 / n) * std::sqrt(p * (1 - p) / n + z2 / (4 * n * n));
  return {p, hits == 0 ? 0 : std::max(0.0, centre - reach),
          hits == count ? 1 : std::min(1.0, centre + reach)};
}

Inspection inspect_layer(const AttentionLayer& layer, const InspectOptions& options,
                         const Execution& execution) {
  const Heed heeding(execution);
  options.validate();
  require_memory(layer, options, execution);
  Inspection result{.heads = layer.heads(), .dim = layer.dim(), .outputs = layer.outputs()};
  result.per_head = summarise_heads(layer, execution);
  result.closest = closest_pair(layer, execution);
  AttentionLayer distinct = canonical(layer);
  result.distinct_heads = distinct.heads();
  keep_logits_finite(distinct);
  if (distinct.heads() > 0) result.agreement = measure_agreement(distinct, options, execution);
  return result;
}

AttentionLayer restrict_layer(const AttentionLayer& layer, Index dim) {
  require_plain(layer, "a restriction");
  require(dim >= 1 && dim <= layer.dim(), option("restrict"), ": ", dim,
          " given, expected 1 to d = ", layer.dim());
  const Index m = layer.heads(), d = layer.dim(), e = std::min(dim, layer.outputs());
  AttentionLayer out{Array(DType::f64, {m, dim, dim}), Array(DType::f64, {m, dim, e})};
  for (Index i = 0; i < m; ++i)
    for (Index a = 0; a < dim; ++a) {
      std::copy_n(head_of(layer.theta, i) + a * d, dim, out.theta.data<double>() + (i * dim + a) * dim);
      std::copy_n(head_of(layer.w, i) + a * layer.outputs(), e, out.w.data<double>() + (i * dim + a) * e);
    }
  return out;
}

}  // namespace headlens

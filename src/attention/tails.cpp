#include <algorithm>
#include <cmath>
#include <utility>

#include "attention/magnitude.hpp"
#include "base/memory.hpp"
#include "base/normal.hpp"
#include "base/parallel.hpp"
#include "base/random.hpp"
#include "headlens/conditions.hpp"
#include "headlens/error.hpp"
#include "linalg/blas.hpp"
#include "linalg/tiles.hpp"

namespace headlens {
namespace {

constexpr Index kTailRows = 256;
constexpr double kKolmogorov95 = 1.3581;  // 95% quantile of sqrt(n) times the distance of n samples

// Logits x^T Theta x' of the pairs of this block, divided by `unit`.
void draw_block(MatrixView<const double> theta, double unit, Tile tile, std::uint64_t seed, double* logits) {
  const Index d = theta.rows;
  Matrix<double> x(tile.size, d), other(tile.size, d), image(tile.size, d);
  for (Index r = 0; r < tile.size; ++r) {
    Stream stream(seed, "tails", static_cast<std::uint64_t>(tile.begin + r));
    for (Index j = 0; j < d; ++j) x(r, j) = stream.below(2) == 0 ? -1.0 : 1.0;
    for (Index j = 0; j < d; ++j) other(r, j) = stream.below(2) == 0 ? -1.0 : 1.0;
  }
  gemm(Trans::no, Trans::no, 1.0 / unit, std::as_const(x).view(), theta, 0.0, image.view());
  for (Index r = 0; r < tile.size; ++r) {
    logits[r] = 0;
    for (Index j = 0; j < d; ++j) logits[r] += image(r, j) * other(r, j);
  }
}

LogitTails tails_of(std::vector<double> logits) {
  std::sort(logits.begin(), logits.end());
  const auto count = static_cast<double>(logits.size());
  LogitTails out;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double below = normal_probability(logits[i]), before = static_cast<double>(i) / count;
    out.kolmogorov = std::max({out.kolmogorov, below - before, before + 1 / count - below});
  }
  for (const double deviations : {1.0, 2.0, 3.0, 4.0}) {
    const auto hits =
        std::count_if(logits.begin(), logits.end(), [&](double z) { return std::abs(z) > deviations; });
    out.tails.push_back({deviations, wilson_share(hits, static_cast<Index>(logits.size())),
                         std::erfc(deviations / std::sqrt(2.0))});
  }
  return out;
}

}  // namespace

double kolmogorov_noise(Index samples) { return kKolmogorov95 / std::sqrt(static_cast<double>(samples)); }

std::vector<std::optional<LogitTails>> logit_tails(const AttentionLayer& layer, const InspectOptions& options,
                                                   const Execution& execution) {
  const Heed heeding(execution);
  require_plain(layer, "the test of logits");
  options.validate();
  const Index d = layer.dim(), blocks = tile_count(options.samples, kTailRows);
  const int threads = thread_count(execution);
  MemoryBudget(execution).require(
      8 * (2 * static_cast<double>(options.samples) + 3.0 * threads * kTailRows * static_cast<double>(d)),
      join("the logits of ", options.samples, " pairs of tokens"));
  std::vector<std::optional<LogitTails>> out;
  for (Index i = 0; i < layer.heads(); ++i) {
    const double* entries = layer.theta.data<double>() + i * d * d;
    const Magnitude size = norm_of(entries, d * d);
    if (size.mantissa == 0) {
      out.emplace_back();
      continue;
    }
    const std::vector<double> scaled = in_units(entries, d * d, size.exponent);
    const MatrixView<const double> theta(scaled.data(), d, d);
    std::vector<double> logits(static_cast<std::size_t>(options.samples));
    for (Index first = 0; first < blocks; first += 4 * threads) {
      execution.check_cancelled();
      execution.report("tails", static_cast<double>(i * blocks + first),
                       static_cast<double>(layer.heads() * blocks));
      parallel_for(threads, std::min<Index>(4 * threads, blocks - first), [&](Index b, int) {
        const Tile tile = tile_at(options.samples, kTailRows, first + b);
        draw_block(theta, size.mantissa, tile, options.seed, logits.data() + tile.begin);
      });
    }
    out.emplace_back(tails_of(std::move(logits)));
  }
  return out;
}

}  // namespace headlens

#include "hardness/fourier_sample.hpp"

#include <algorithm>
#include <cmath>

#include "base/parallel.hpp"
#include "linalg/matrix.hpp"
#include "linalg/tiles.hpp"

namespace headlens {
namespace {

constexpr Index kSubsets = 512;  // subsets per task
constexpr Index kLanes = 1024;   // samples whose products stay in cache

// One row per variable and per output, one column per sample, so that products over subsets run along memory.
struct Samples {
  Matrix<double> signs;    // (2d, n)
  Matrix<double> outputs;  // (e, n), of the first token
};

Samples draw_samples(const AttentionLayer& layer, const FourierOptions& options, const Execution& execution) {
  const Index d = layer.dim(), e = layer.outputs(), n = options.samples;
  const Examples drawn = draw_examples(layer, {.count = n, .tokens = 2, .seed = options.seed}, execution);
  Samples out{Matrix<double>(2 * d, n), Matrix<double>(e, n)};
  for (Index i = 0; i < n; ++i) {
    for (Index v = 0; v < 2 * d; ++v) out.signs(v, i) = drawn.x.data<double>()[i * 2 * d + v];
    for (Index c = 0; c < e; ++c) out.outputs(c, i) = drawn.y.data<double>()[i * 2 * e + c];
  }
  return out;
}

// Sums of F chi_S for the subsets of one task, blocks of samples in order.
void sum_products(const Samples& samples, Tile rows, Fourier& fourier) {
  const Index degree = fourier.subsets.dim(1), e = samples.outputs.rows(), n = samples.signs.cols();
  std::vector<double> product(kLanes);
  for (Index block = 0; block < tile_count(n, kLanes); ++block) {
    const Tile lanes = tile_at(n, kLanes, block);
    for (Index row = rows.begin; row < rows.begin + rows.size; ++row) {
      const std::int64_t* subset = fourier.subsets.data<std::int64_t>() + row * degree;
      std::fill_n(product.begin(), lanes.size, 1.0);
      for (Index i = 0; i < degree && subset[i] >= 0; ++i) {
        const double* sign = samples.signs.view().row(subset[i]) + lanes.begin;
        for (Index j = 0; j < lanes.size; ++j) product[static_cast<std::size_t>(j)] *= sign[j];
      }
      for (Index c = 0; c < e; ++c) {
        const double* f = samples.outputs.view().row(c) + lanes.begin;
        double sum = 0;
        for (Index j = 0; j < lanes.size; ++j) sum += f[j] * product[static_cast<std::size_t>(j)];
        fourier.values.data<double>()[row * e + c] += sum;
      }
    }
  }
}

// z with P(|normal| > z) = chance, by bisection.
double two_sided_quantile(double chance) {
  double low = 0, high = 40;
  for (int step = 0; step < 200; ++step) {
    const double middle = (low + high) / 2;
    (std::erfc(middle / std::sqrt(2.0)) > chance ? low : high) = middle;
  }
  return high;
}

}  // namespace

void sample_coefficients(const AttentionLayer& layer, const FourierOptions& options, Fourier& fourier,
                         const Execution& execution) {
  const Samples samples = draw_samples(layer, options, execution);
  const int threads = thread_count(execution);
  const Index rows = fourier.subsets.dim(0), tasks = tile_count(rows, kSubsets);
  for (Index first = 0; first < tasks; first += 4 * threads) {
    execution.check_cancelled();
    execution.report("coefficients", static_cast<double>(first), static_cast<double>(tasks));
    parallel_for(threads, std::min<Index>(4 * threads, tasks - first), [&](Index task, int) {
      sum_products(samples, tile_at(rows, kSubsets, first + task), fourier);
    });
  }
  const auto n = static_cast<double>(options.samples);
  for (Index i = 0; i < fourier.values.size(); ++i) fourier.values.data<double>()[i] /= n;
  // The variance of F chi_S is at most E (F chi_S)^2 = E F^2, the same for every S.
  const double z = two_sided_quantile(0.05 / static_cast<double>(fourier.values.size()));
  for (Index c = 0; c < layer.outputs(); ++c) {
    double squares = 0;
    for (Index i = 0; i < options.samples; ++i) squares += samples.outputs(c, i) * samples.outputs(c, i) / n;
    fourier.half_widths.push_back(z * std::sqrt(squares / n));
  }
}

}  // namespace headlens

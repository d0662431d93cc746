#include "headlens/fourier.hpp"

#include <algorithm>
#include <cmath>

#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "hardness/fourier_sample.hpp"
#include "headlens/error.hpp"
#include "headlens/hardness.hpp"
#include "linalg/tiles.hpp"

namespace headlens {
namespace {

constexpr Index kBlock = 1 << 14;    // inputs that meet the layer at once
constexpr double kMostTerms = 1e12;  // coefficients times samples
constexpr double kMostCoefficients = 5e7;

double coefficient_count(Index variables, Index degree) {
  double count = 0;
  for (Index k = 0; k <= degree; ++k) count += binomial(variables, k);
  return count;
}

// All subsets of at most `degree` variables, in the order of Fourier::subsets.
Array all_subsets(Index variables, Index degree, Index count) {
  Array out(DType::i64, {count, degree});
  std::int64_t* row = out.data<std::int64_t>();
  for (Index size = 0; size <= degree; ++size) {
    std::vector<Index> subset(static_cast<std::size_t>(size));
    for (Index i = 0; i < size; ++i) subset[static_cast<std::size_t>(i)] = i;
    while (true) {
      for (Index i = 0; i < degree; ++i) row[i] = i < size ? subset[static_cast<std::size_t>(i)] : -1;
      row += degree;
      Index i = size - 1;
      while (i >= 0 && subset[static_cast<std::size_t>(i)] == variables - size + i) --i;
      if (i < 0) break;
      ++subset[static_cast<std::size_t>(i)];
      for (Index j = i + 1; j < size; ++j)
        subset[static_cast<std::size_t>(j)] = subset[static_cast<std::size_t>(j - 1)] + 1;
    }
  }
  return out;
}

// Outputs of the first token for every input, (e, 2^{2d}). Bit v of an input's place in the row is set where
// variable v is -1.
std::vector<std::vector<double>> all_outputs(const AttentionLayer& layer, const Execution& execution) {
  const Index d = layer.dim(), e = layer.outputs(), total = Index{1} << (2 * d);
  std::vector<std::vector<double>> f(static_cast<std::size_t>(e),
                                     std::vector<double>(static_cast<std::size_t>(total)));
  for (Index block = 0; block < tile_count(total, kBlock); ++block) {
    execution.check_cancelled();
    const Tile tile = tile_at(total, kBlock, block);
    execution.report("inputs", static_cast<double>(tile.begin), static_cast<double>(total));
    Array x(DType::f64, {tile.size, 2, d});
    for (Index i = 0; i < tile.size; ++i)
      for (Index v = 0; v < 2 * d; ++v)
        x.data<double>()[i * 2 * d + v] = ((tile.begin + i) >> v) & 1 ? -1 : 1;
    const Array y = apply_layer(layer, x, execution);
    for (Index i = 0; i < tile.size; ++i)
      for (Index c = 0; c < e; ++c)
        f[static_cast<std::size_t>(c)][static_cast<std::size_t>(tile.begin + i)] =
            y.data<double>()[i * 2 * e + c];
  }
  return f;
}

// In place: f[S] <- sum over inputs of f chi_S.
void walsh_hadamard(std::vector<double>& f) {
  for (std::size_t half = 1; half < f.size(); half *= 2)
    for (std::size_t first = 0; first < f.size(); first += 2 * half)
      for (std::size_t i = first; i < first + half; ++i) {
        const double a = f[i], b = f[i + half];
        f[i] = a + b;
        f[i + half] = a - b;
      }
}

void enumerate(const AttentionLayer& layer, Fourier& fourier, const Execution& execution) {
  std::vector<std::vector<double>> f = all_outputs(layer, execution);
  const Index e = layer.outputs(), degree = fourier.subsets.dim(1);
  for (Index c = 0; c < e; ++c) {
    std::vector<double>& column = f[static_cast<std::size_t>(c)];
    walsh_hadamard(column);
    for (Index row = 0; row < fourier.subsets.dim(0); ++row) {
      std::size_t mask = 0;
      for (Index i = 0; i < degree; ++i) {
        const std::int64_t v = fourier.subsets.data<std::int64_t>()[row * degree + i];
        if (v >= 0) mask |= std::size_t{1} << v;
      }
      fourier.values.data<double>()[row * e + c] = column[mask] / static_cast<double>(column.size());
    }
  }
  fourier.half_widths.assign(static_cast<std::size_t>(e), 0);
}

void require_memory(const AttentionLayer& layer, const FourierOptions& options, double count, bool exact,
                    const Execution& execution) {
  const double d = static_cast<double>(layer.dim()), e = static_cast<double>(layer.outputs());
  const double outputs = exact ? std::pow(4.0, d) * e : static_cast<double>(options.samples) * (2 * d + e);
  const double block = static_cast<double>(kBlock) * 2 * d * (2 + static_cast<double>(layer.heads()));
  MemoryBudget(execution).require(8 * (count * (static_cast<double>(options.degree) + e) + outputs + block),
                                  join("Fourier coefficients up to degree ", options.degree));
}

bool of_the_control(const std::int64_t* subset, Index degree, Index dim) {
  return std::all_of(subset, subset + degree, [&](std::int64_t v) { return v == -1 || v == 0 || v == dim; });
}

}  // namespace

void FourierOptions::validate() const {
  require(degree >= 1, "fourier: degree ", degree, " given, expected 1 or more");
  require(samples >= 2, option("samples"), ": ", samples, " given, expected 2 or more");
}

Fourier fourier_coefficients(const AttentionLayer& layer, const FourierOptions& options,
                             const Execution& execution) {
  const Heed heeding(execution);
  require_plain(layer, "the Fourier transform");
  options.validate();
  const Index variables = 2 * layer.dim();
  require(options.degree <= variables, "fourier: degree ", options.degree,
          " given, expected at most 2 d = ", variables);
  const bool exact = variables <= kMostEnumerated;
  const double count = coefficient_count(variables, options.degree);
  require(count <= kMostCoefficients && (exact || count * static_cast<double>(options.samples) <= kMostTerms),
          "fourier: degree ", options.degree, " of ", variables, " variables has ", count,
          " coefficients, which is too many; expected a lower degree", exact ? "" : " or fewer samples");
  require_memory(layer, options, count, exact, execution);
  const auto rows = static_cast<Index>(count);
  Fourier fourier{
      exact, all_subsets(variables, options.degree, rows), Array(DType::f64, {rows, layer.outputs()}), {}};
  if (exact)
    enumerate(layer, fourier, execution);
  else
    sample_coefficients(layer, options, fourier, execution);
  double squares = 0;
  for (Index i = 0; i < fourier.values.size(); ++i)
    squares += fourier.values.data<double>()[i] * fourier.values.data<double>()[i];
  require(std::isfinite(squares),
          "fourier: the squares of the coefficients add up to more than 1.8e308, the largest number that a "
          "double holds; divide W by a power of two first");
  return fourier;
}

std::vector<FourierLevel> fourier_levels(const Fourier& fourier, Index dim, FourierPart part) {
  const Index degree = fourier.subsets.dim(1), e = fourier.values.dim(1);
  std::vector<FourierLevel> levels(static_cast<std::size_t>(degree + 1));
  for (Index k = 0; k <= degree; ++k) levels[static_cast<std::size_t>(k)].degree = k;
  for (Index row = 0; row < fourier.subsets.dim(0); ++row) {
    const std::int64_t* subset = fourier.subsets.data<std::int64_t>() + row * degree;
    if (part == FourierPart::hidden && of_the_control(subset, degree, dim)) continue;
    FourierLevel& level = levels[static_cast<std::size_t>(
        std::count_if(subset, subset + degree, [](std::int64_t v) { return v >= 0; }))];
    for (Index c = 0; c < e; ++c) {
      const double value = fourier.values.data<double>()[row * e + c];
      ++level.count;
      level.largest = std::max(level.largest, std::abs(value));
      level.weight += value * value;
    }
  }
  return levels;
}

}  // namespace headlens

#include "recover/unit_scales.hpp"

#include <algorithm>
#include <cmath>

#include "base/parallel.hpp"
#include "headlens/error.hpp"
#include "linalg/tiles.hpp"

namespace headlens::recovery {
namespace {

constexpr int kLargestExponent = 960;  // of an entry's unit: leaves room for the entries themselves

constexpr Index kColumns = 64, kRows = 4096, kShare = 1 << 18;  // of a tile

// value * 2^exponent
struct PowerOfTwo {
  explicit PowerOfTwo(int e) : exponent(e), factor(std::scalbn(1.0, e)) {}
  bool is_plain() const { return std::isfinite(factor) && factor > 0; }  // else the factor has no double
  double times(double value) const { return is_plain() ? value * factor : std::scalbn(value, exponent); }
  int exponent;
  double factor;
};

// The powers of two nearest to the root mean square of every column; 0 where all are 0. Squares are taken
// relative to the largest value, so no size overflows.
std::vector<int> units_of_columns(MatrixView<const double> a, int threads) {
  std::vector<int> out(static_cast<std::size_t>(a.cols));
  parallel_for(threads, tile_count(a.cols, kColumns), [&](Index item, int) {
    const Tile tile = tile_at(a.cols, kColumns, item);
    std::vector<double> largest(static_cast<std::size_t>(tile.size)), squares(largest);
    double* __restrict most = largest.data();  // else every value might change the tokens
    for (Index row = 0; row < a.rows; ++row) {
      const double* values = &a(row, tile.begin);
      for (Index j = 0; j < tile.size; ++j) most[j] = std::max(most[j], std::abs(values[j]));
    }
    std::vector<PowerOfTwo> units;
    for (const double size : largest) units.emplace_back(size > 0 ? -std::ilogb(size) : 0);
    const bool plain =
        std::all_of(units.begin(), units.end(), [](const PowerOfTwo& u) { return u.is_plain(); });
    std::vector<double> factors;
    for (const PowerOfTwo& unit : units) factors.push_back(unit.factor);
    double* __restrict sums = squares.data();
    for (Index row = 0; row < a.rows; ++row) {
      const double* values = &a(row, tile.begin);
      for (Index j = 0; j < tile.size; ++j) {
        const auto at = static_cast<std::size_t>(j);
        const double value = plain ? factors[at] * values[j] : units[at].times(values[j]);
        sums[j] += value * value;
      }
    }
    for (Index j = 0; j < tile.size; ++j) {
      const auto at = static_cast<std::size_t>(j);
      const double mean = squares[at] / static_cast<double>(a.rows);
      if (largest[at] > 0)
        out[static_cast<std::size_t>(tile.begin + j)] =
            -units[at].exponent + static_cast<int>(std::lround(0.5 * std::log2(mean)));
    }
  });
  return out;
}

// The same of all values together. Shares are summed in order; the power of two does not see their rounding.
int unit_of(const double* values, Index count, int threads) {
  const auto shares = static_cast<std::size_t>(tile_count(count, kShare));
  std::vector<double> largest(shares), squares(shares);
  const auto over_shares = [&](const auto& work) {
    parallel_for(threads, static_cast<Index>(shares), [&](Index item, int) {
      const Tile tile = tile_at(count, kShare, item);
      work(static_cast<std::size_t>(item), values + tile.begin, values + tile.begin + tile.size);
    });
  };
  over_shares([&](std::size_t share, const double* at, const double* end) {
    for (; at != end; ++at) largest[share] = std::max(largest[share], std::abs(*at));
  });
  const double most = *std::max_element(largest.begin(), largest.end());
  if (!(most > 0)) return 0;
  const PowerOfTwo unit(-std::ilogb(most));
  over_shares([&](std::size_t share, const double* at, const double* end) {
    for (; at != end; ++at) squares[share] += unit.times(*at) * unit.times(*at);
  });
  double sum = 0;
  for (const double share : squares) sum += share;
  return -unit.exponent + static_cast<int>(std::lround(0.5 * std::log2(sum / static_cast<double>(count))));
}

// values * 2^(sign * exponent of the last axis)
Array scaled(const Array& array, const std::vector<int>& exponents, int sign, int threads) {
  if (std::all_of(exponents.begin(), exponents.end(), [](int e) { return e == 0; })) return array;
  Array out(DType::f64, array.shape());
  const auto width = static_cast<Index>(exponents.size()), rows = array.size() / width;
  std::vector<PowerOfTwo> units;
  for (const int e : exponents) units.emplace_back(sign * e);
  parallel_for(threads, tile_count(rows, kRows), [&](Index item, int) {
    const Tile tile = tile_at(rows, kRows, item);
    for (Index i = tile.begin * width; i < (tile.begin + tile.size) * width; i += width)
      for (Index j = 0; j < width; ++j)
        out.data<double>()[i + j] = units[static_cast<std::size_t>(j)].times(array.data<double>()[i + j]);
  });
  return out;
}

}  // namespace

std::vector<double> Units::theta_weights() const {
  const int least = *std::min_element(tokens.begin(), tokens.end());
  std::vector<double> out;
  for (const int t : tokens) out.push_back(std::scalbn(1.0, least - t));
  return out;
}

Units units_of(const Examples& examples, int threads) {
  const Index d = examples.dim();
  return {units_of_columns({examples.x.data<double>(), examples.x.size() / d, d}, threads),
          unit_of(examples.y.data<double>(), examples.y.size(), threads)};
}

Units plain_units(const Examples& examples) {
  return {std::vector<int>(static_cast<std::size_t>(examples.dim()), 0), 0};
}

void require_representable(const Units& units) {
  const auto [least, most] = std::minmax_element(units.tokens.begin(), units.tokens.end());
  const int theta = 2 * std::max(std::abs(*least), std::abs(*most));
  const int w = std::max(std::abs(units.labels - *least), std::abs(units.labels - *most));
  require(theta <= kLargestExponent && w <= kLargestExponent, "X has coordinates of size 1e",
          std::lround(*least * std::log10(2)), " to 1e", std::lround(*most * std::log10(2)),
          " and Y is of size 1e", std::lround(units.labels * std::log10(2)),
          ": the heads of such a layer cannot be held in float64; divide X or Y by a constant");
}

Examples in_units(const Examples& examples, const Units& units, int threads) {
  const std::vector<int> labels(static_cast<std::size_t>(examples.outputs()), units.labels);
  return {scaled(examples.x, units.tokens, -1, threads), scaled(examples.y, labels, -1, threads),
          examples.lengths, examples.seen};
}

AttentionLayer from_units(const Units& units, const AttentionLayer& layer) {
  AttentionLayer out{Array(DType::f64, layer.theta.shape()), Array(DType::f64, layer.w.shape())};
  const Index d = layer.dim(), e = layer.outputs();
  const auto unit = [&](Index q) { return units.tokens[static_cast<std::size_t>(q)]; };
  for (Index row = 0; row < layer.heads() * d; ++row) {
    for (Index b = 0; b < d; ++b)
      out.theta.data<double>()[row * d + b] =
          std::scalbn(layer.theta.data<double>()[row * d + b], -unit(row % d) - unit(b));
    for (Index c = 0; c < e; ++c)
      out.w.data<double>()[row * e + c] =
          std::scalbn(layer.w.data<double>()[row * e + c], units.labels - unit(row % d));
  }
  return out;
}

}  // namespace headlens::recovery

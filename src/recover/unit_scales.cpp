#include "recover/unit_scales.hpp"

#include <algorithm>
#include <cmath>

#include "headlens/error.hpp"

namespace headlens::recovery {
namespace {

constexpr int kLargestExponent = 960;  // of an entry's unit: leaves room for the entries themselves

// The power of two nearest to the root mean square of every stride-th value; 0 where all are 0. Squares are
// taken relative to the largest value, so no size overflows.
int unit_of(const double* values, Index count, Index stride) {
  double largest = 0;
  for (Index i = 0; i < count; ++i) largest = std::max(largest, std::abs(values[i * stride]));
  if (!(largest > 0)) return 0;
  const int exponent = std::ilogb(largest);
  double squares = 0;
  for (Index i = 0; i < count; ++i) squares += std::pow(std::scalbn(values[i * stride], -exponent), 2);
  return exponent + static_cast<int>(std::lround(0.5 * std::log2(squares / static_cast<double>(count))));
}

// values * 2^(sign * exponent of the last axis)
Array scaled(const Array& array, const std::vector<int>& exponents, int sign) {
  if (std::all_of(exponents.begin(), exponents.end(), [](int e) { return e == 0; })) return array;
  Array out(DType::f64, array.shape());
  const auto width = static_cast<Index>(exponents.size());
  for (Index i = 0; i < array.size(); ++i)
    out.data<double>()[i] =
        std::scalbn(array.data<double>()[i], sign * exponents[static_cast<std::size_t>(i % width)]);
  return out;
}

}  // namespace

std::vector<double> Units::theta_weights() const {
  const int least = *std::min_element(tokens.begin(), tokens.end());
  std::vector<double> out;
  for (const int t : tokens) out.push_back(std::scalbn(1.0, least - t));
  return out;
}

Units units_of(const Examples& examples) {
  Units units;
  const Index d = examples.dim();
  for (Index q = 0; q < d; ++q)
    units.tokens.push_back(unit_of(examples.x.data<double>() + q, examples.x.size() / d, d));
  units.labels = unit_of(examples.y.data<double>(), examples.y.size(), 1);
  return units;
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

Examples in_units(const Examples& examples, const Units& units) {
  const std::vector<int> labels(static_cast<std::size_t>(examples.outputs()), units.labels);
  return {scaled(examples.x, units.tokens, -1), scaled(examples.y, labels, -1), examples.lengths};
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

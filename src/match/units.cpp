#include "match/units.hpp"

#include <algorithm>
#include <cmath>

#include "attention/magnitude.hpp"

namespace headlens::matching {
namespace {

constexpr int kNoExponent = -1 << 20;

int exponent(const Array& array) {
  const double* entries = array.data<double>();
  const bool zero = std::all_of(entries, entries + array.size(), [](double x) { return x == 0; });
  return zero ? kNoExponent : exponent_of(entries, array.size());
}

Array scaled(const Array& array, int by) {
  if (array.empty()) return array;
  Array out(DType::f64, array.shape());
  for (Index i = 0; i < array.size(); ++i) out.data<double>()[i] = std::ldexp(array.data<double>()[i], by);
  return out;
}

}  // namespace

Units units_of(const std::vector<LayerHeads>& a, const std::vector<LayerHeads>& b) {
  Units out{kNoExponent, kNoExponent};
  for (const std::vector<LayerHeads>* layers : {&a, &b})
    for (const LayerHeads& layer : *layers) {
      out.theta = std::max(out.theta, exponent(layer.q) + (layer.k.empty() ? 0 : exponent(layer.k)));
      if (!layer.query_bias.empty()) out.theta = std::max(out.theta, exponent(layer.query_bias));
      out.w = std::max(out.w, exponent(layer.v) + (layer.o.empty() ? 0 : exponent(layer.o)));
    }
  if (out.theta <= kNoExponent) out.theta = 0;  // all heads average: there is nothing to scale
  if (out.w <= kNoExponent) out.w = 0;
  return out;
}

std::vector<LayerHeads> in_units(const std::vector<LayerHeads>& layers, const Units& units) {
  std::vector<LayerHeads> out = layers;
  for (LayerHeads& layer : out) {
    layer.q = scaled(layer.q, -units.theta);
    layer.query_bias = scaled(layer.query_bias, -units.theta);
    layer.turned_query = scaled(layer.turned_query, -units.theta);
    layer.v = scaled(layer.v, -units.w);
  }
  return out;
}

}  // namespace headlens::matching

#include "recover/units.hpp"

#include <cmath>

namespace headlens {
namespace {

// The power of two nearest to the root mean square; 1 where that is 0 or beyond what a square can hold.
double unit_of(const Array& array) {
  const double* values = array.data<double>();
  double squares = 0;
  for (Index i = 0; i < array.size(); ++i) squares += values[i] * values[i];
  const double size = std::sqrt(squares / static_cast<double>(array.size()));
  return size > 0 && std::isfinite(size) ? std::exp2(std::round(std::log2(size))) : 1;
}

Array multiplied(const Array& array, double factor) {
  if (factor == 1) return array;
  Array out(DType::f64, array.shape());
  for (Index i = 0; i < array.size(); ++i) out.data<double>()[i] = factor * array.data<double>()[i];
  return out;
}

}  // namespace

Units units_of(const Examples& examples) { return {unit_of(examples.x), unit_of(examples.y)}; }

Examples in_units(const Examples& examples, const Units& units) {
  return {multiplied(examples.x, 1 / units.tokens), multiplied(examples.y, 1 / units.labels)};
}

void from_units(const Units& units, Recovery& recovery) {
  const double theta = 1 / (units.tokens * units.tokens), w = units.labels / units.tokens;
  if (recovery.layer)
    recovery.layer =
        AttentionLayer{multiplied(recovery.layer->theta, theta), multiplied(recovery.layer->w, w)};
  for (HeadReport& head : recovery.certificate.per_head) head.scale *= theta, head.w_norm *= w;
  if (recovery.certificate.noise) *recovery.certificate.noise *= units.labels;
}

}  // namespace headlens

#include "theory/head_variance.hpp"

#include <cmath>
#include <numbers>

#include "base/parallel.hpp"
#include "theory/gauss_rule.hpp"

namespace headlens {
namespace {

constexpr Index kCoordinateNodes = 64;

// A_w and v_w for w = (size e, threshold), e a unit vector: A_w = across (I - e e^T) + along e e^T on the
// first d coordinates, `mixed` e beside them, `last` in the corner; v_w = (slope e, level).
struct KeyMoments {
  double across = 0, along = 0, mixed = 0, last = 0;
  double slope = 0, level = 0;
};

KeyMoments key_moments(const GaussRule& coordinate, double d, double size, double threshold) {
  KeyMoments out;
  for (std::size_t k = 0; k < coordinate.nodes.size(); ++k) {
    const double t = coordinate.nodes[k], relu = std::max(0.0, size * t + threshold);
    const double first = coordinate.weights[k] * relu, second = first * relu;
    out.level += first;
    out.slope += first * t;
    out.last += second;
    out.mixed += second * t;
    out.along += second * t * t;
  }
  out.across = (out.last - out.along) / (d - 1);
  return out;
}

// v^T A v for v of a, A of b, `cosine` between their unit vectors.
double form(const KeyMoments& a, const KeyMoments& b, double cosine) {
  return a.slope * a.slope * (b.across + (b.along - b.across) * cosine * cosine) +
         2 * a.slope * a.level * b.mixed * cosine + a.level * a.level * b.last;
}

// tr[(A/N + (1 - 1/N) v v^T)(A'/N + (1 - 1/N) v' v'^T)]
double product(const KeyMoments& a, const KeyMoments& b, double d, double keys, double cosine) {
  const double extra = a.along - a.across, other = b.along - b.across, rest = 1 - 1 / keys;
  const double squares = d * a.across * b.across + a.across * other + b.across * extra +
                         extra * other * cosine * cosine + 2 * a.mixed * b.mixed * cosine + a.last * b.last;
  const double inner = a.slope * b.slope * cosine + a.level * b.level;
  return squares / (keys * keys) + rest / keys * (form(a, b, cosine) + form(b, a, cosine)) +
         rest * rest * inner * inner;
}

}  // namespace

double head_second_moment(Index dim, Index keys) {
  const double d = static_cast<double>(dim), n = static_cast<double>(keys), scale = std::sqrt(0.5);
  const GaussRule coordinate = coordinate_rule(kCoordinateNodes, dim), query = coordinate_rule(6, dim);
  const GaussRule length = chi_square_rule(4, d), threshold = normal_rule(8), step = normal_rule(6);
  const GaussRule beside = chi_square_rule(3, d - 1);
  double sum = 0;
  for (std::size_t i = 0; i < length.nodes.size(); ++i)
    for (std::size_t j = 0; j < threshold.nodes.size(); ++j) {
      const double size = scale * std::sqrt(length.nodes[i]), corner = scale * threshold.nodes[j];
      const KeyMoments first = key_moments(coordinate, d, size, corner);
      for (std::size_t q = 0; q < query.nodes.size(); ++q) {
        heed();
        const double rho = 0.5 * (1 + query.nodes[q]), free = scale * std::sqrt(1 - rho * rho);
        const double outer = length.weights[i] * threshold.weights[j] * query.weights[q];
        for (std::size_t k = 0; k < step.nodes.size(); ++k)
          for (std::size_t l = 0; l < beside.nodes.size(); ++l) {
            const double along = rho * size + free * step.nodes[k];
            const double whole = std::hypot(along, free * std::sqrt(beside.nodes[l]));
            for (std::size_t t = 0; t < step.nodes.size(); ++t) {
              const double weight = outer * step.weights[k] * beside.weights[l] * step.weights[t];
              const KeyMoments second =
                  key_moments(coordinate, d, whole, rho * corner + free * step.nodes[t]);
              sum += weight * product(first, second, d, n, along / whole);
            }
          }
      }
    }
  return sum;
}

}  // namespace headlens

#include "cpu/kernels/moments.hpp"

#include <algorithm>
#include <boost/math/special_functions/owens_t.hpp>
#include <cmath>
#include <numbers>

#include "base/normal.hpp"

namespace headlens::cpu {
namespace {

constexpr double kPi = std::numbers::pi;

// Owen's T in double throughout: by default Boost would take long double, several times slower.
double owens_t(double h, double a) {
  using namespace boost::math::policies;
  return boost::math::owens_t(h, a, policy<promote_double<false>, overflow_error<ignore_error>>());
}

// What the formulas share: q, u and v.
struct Pair {
  double q, u, v;

  Pair(double h, double k, double rho) {
    q = std::sqrt((1 - rho) * (1 + rho));
    // (k - rho h, h - rho k) without cancellation at rho near 1 or -1
    const double sign = rho < 0 ? -1 : 1, left = 1 - std::abs(rho);
    u = ((k - sign * h) + sign * left * h) / q;
    v = ((h - sign * k) + sign * left * k) / q;
  }
};

// T(x, y / x); x = 0 takes the limit of an infinite second argument.
double owens_t_of_ratio(double x, double y) {
  if (x == 0) return y == 0 ? 0 : std::copysign(0.25, y);
  return owens_t(x, y / x);
}

double bivariate_probability(double h, double k, double rho, const Pair& p) {
  if (h == 0 && k == 0) return 0.25 + std::asin(rho) / (2 * kPi);
  // With h = 0 the limit h -> 0+ is taken, and the same for k; opposite signs are counted accordingly.
  const bool opposite = (h < 0) != (k < 0);
  const double value = 0.5 * (normal_probability(h) + normal_probability(k)) - owens_t_of_ratio(h, p.u) -
                       owens_t_of_ratio(k, p.v) - (opposite ? 0.5 : 0.0);
  return std::clamp(value, 0.0, 1.0);
}

}  // namespace

double step_moment(double h, double k, double rho) {
  if (rho >= 1) return normal_probability(std::min(h, k));
  if (rho <= -1) return std::max(0.0, normal_probability(h) - normal_probability(-k));
  return bivariate_probability(h, k, rho, Pair(h, k, rho));
}

double relu_moment(double h, double k, double rho) {
  if (rho >= 1) {
    const double m = std::min(h, k);
    return std::max(0.0, (h * k + 1) * normal_probability(m) + std::max(h, k) * normal_density(m));
  }
  if (rho <= -1) {  // both positive for -h < g < k
    if (h + k <= 0) return 0;
    const double mass = normal_probability(h) - normal_probability(-k);
    return std::max(0.0, (h * k - 1) * mass + k * normal_density(h) + h * normal_density(k));
  }
  const Pair p(h, k, rho);
  const double value =
      (h * k + rho) * bivariate_probability(h, k, rho, p) + k * normal_density(h) * normal_probability(p.u) +
      h * normal_density(k) * normal_probability(p.v) + p.q * normal_density(h) * normal_density(p.u);
  return std::max(0.0, value);
}

double relu_moment(double m, double s, double n, double t, double rho) {
  // A deviation that far below its mean is as good as none, and the ratio might overflow.
  constexpr double kNone = 1e-100;
  const auto alone = [](double mean, double deviation) {  // E[relu(mean + deviation g)]
    if (deviation <= kNone * std::abs(mean)) return std::max(mean, 0.0);
    const double ratio = mean / deviation;
    return deviation * std::max(0.0, ratio * normal_probability(ratio) + normal_density(ratio));
  };
  if (s <= kNone * std::abs(m) || t <= kNone * std::abs(n)) return alone(m, s) * alone(n, t);
  return s * t * relu_moment(m / s, n / t, rho);
}

}  // namespace headlens::cpu

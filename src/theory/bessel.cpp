#include "theory/bessel.hpp"

#include <boost/math/special_functions/bessel.hpp>
#include <cmath>
#include <numbers>
#include <vector>

#include "base/log_gamma.hpp"
#include "base/parallel.hpp"

namespace headlens {
namespace {

constexpr double kSeriesReach = 200;  // y^2 / 4 over the order: the sum then is below exp(200)
constexpr int kDebyeTerms = 14;       // the next one is below 1e-17 where the series is not used, y > 28

// V_k(p) = U_k(p) / p^k by U_{k+1} = p^2 (1 - p^2) U_k' / 2 + int_0^p (1 - 5 t^2) U_k dt / 8. U_k has the
// powers p^k, p^(k+2), ..., p^(3k); entry i is the coefficient of p^(k + 2i).
std::vector<std::vector<double>> debye_polynomials() {
  std::vector<std::vector<double>> all{{1.0}};
  for (int k = 0; k + 1 < kDebyeTerms; ++k) {
    const std::vector<double>& u = all.back();
    std::vector<double> next(u.size() + 1, 0.0);
    for (std::size_t i = 0; i < u.size(); ++i) {
      const double power = k + 2.0 * static_cast<double>(i);
      next[i] += u[i] * (0.5 * power + 0.125 / (power + 1));
      next[i + 1] -= u[i] * (0.5 * power + 0.625 / (power + 3));
    }
    all.push_back(std::move(next));
  }
  return all;
}

double log_bessel_i(double order, double y) {
  static const std::vector<std::vector<double>> polynomials = debye_polynomials();
  const double root = std::hypot(order, y), p = order / root;
  double sum = 0, scale = 1;
  for (const std::vector<double>& v : polynomials) {
    double value = 0;
    for (std::size_t i = v.size(); i-- > 0;) value = value * p * p + v[i];
    sum += scale * value;
    scale /= root;  // p / order
  }
  const double exponent = order > 0 ? root + order * std::log(y / (order + root)) : y;
  return exponent - 0.5 * std::log(2 * std::numbers::pi * root) + std::log(sum);
}

}  // namespace

double log_plane_wave(Index dim, Index degree, double y) {
  heed();
  const double nu = 0.5 * static_cast<double>(dim) - 1, order = nu + static_cast<double>(degree);
  const double x = 0.25 * y * y;
  if (x > kSeriesReach * (order + 1))
    return log_gamma(nu + 1) + nu * std::log(2 / y) + log_bessel_i(order, y);
  double log_start = 0;
  for (Index k = 0; k < degree; ++k) log_start += std::log(0.5 * y / (nu + 1 + static_cast<double>(k)));
  double sum = 0, term = 1;  // sum: without the leading 1
  for (double k = 1; term > 1e-18 * (1 + sum); ++k) {
    term *= x / (k * (order + k));
    sum += term;
  }
  return log_start + std::log1p(sum);
}

double log_bessel_k0(double z) {
  if (z < 40) return std::log(boost::math::cyl_bessel_k(0, z));
  double sum = 1, term = 1;
  for (int k = 1; k <= 20; ++k) {
    term *= -(2.0 * k - 1) * (2.0 * k - 1) / (8 * k * z);
    sum += term;
  }
  return 0.5 * std::log(std::numbers::pi / (2 * z)) - z + std::log(sum);
}

}  // namespace headlens

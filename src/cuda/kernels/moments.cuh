// Moments of two Gaussian scores, E[relu(h + g) relu(k + g')] and P(h + g > 0, k + g' > 0), g and g' standard
// normal with correlation rho. The probability is that of Genz, "Numerical computation of rectangular
// bivariate and trivariate normal and t probabilities" (2004): Gauss-Legendre on arcsin(rho), and near |rho|
// = 1 on an expansion from there. Functions are not inlined: sixteen copies of them take minutes to compile.
// Errors are a few ulp of 1 + |h k|, as those of the processor's.
#pragma once

#include <utility>

#include "features/arc_cosine.hpp"

namespace headlens::cuda {

constexpr double kTwoPi = 6.283185307179586477;

__constant__ const double kNodes[3][10] = {
    {0.9324695142031522, 0.6612093864662647, 0.2386191860831970},
    {0.9815606342467191, 0.9041172563704750, 0.7699026741943050, 0.5873179542866171, 0.3678314989981802,
     0.1252334085114692},
    {0.9931285991850949, 0.9639719272779138, 0.9122344282513259, 0.8391169718222188, 0.7463319064601508,
     0.6360536807265150, 0.5108670019508271, 0.3737060887154196, 0.2277858511416451, 0.07652652113349733}};
__constant__ const double kWeights[3][10] = {
    {0.1713244923791705, 0.3607615730481384, 0.4679139345726904},
    {0.04717533638651177, 0.1069393259953183, 0.1600783285433464, 0.2031674267230659, 0.2334925365383547,
     0.2491470458134029},
    {0.01761400713915212, 0.04060142980038694, 0.06267204833410906, 0.08327674157670475, 0.1019301198172404,
     0.1181945319615184, 0.1316886384491766, 0.1420961093183821, 0.1491729864726037, 0.1527533871307259}};

__device__ inline double density(double x) { return exp(-0.5 * x * x) * 0.39894228040143267794; }

// P(g > h, g' > k) for |rho| >= 0.925.
__device__ __noinline__ double upper_probability_near_one(double h, double k, double rho) {
  const double sign = rho < 0 ? -1 : 1;
  k *= sign;
  const double hk = h * k;
  double sum = 0;
  if (fabs(rho) < 1) {
    const double rest = (1 - rho) * (1 + rho), gap = (h - k) * (h - k);
    const double c = (4 - hk) / 8, d = (12 - hk) / 80, root = sqrt(rest), exponent = -(gap / rest + hk) / 2;
    if (exponent > -100)
      sum = root * exp(exponent) * (1 - c * (gap - rest) * (1 - d * gap) / 3 + c * d * rest * rest);
    if (hk > -100) {
      const double b = fabs(h - k);
      sum -= exp(-hk / 2) * sqrt(kTwoPi) * normcdf(-b / root) * b * (1 - c * gap * (1 - d * gap) / 3);
    }
    double integral = 0;
    for (int i = 0; i < 20; ++i) {
      const double x = root / 2 * (1 + (i % 2 ? 1 : -1) * kNodes[2][i / 2]), xs = x * x;
      const double at = -(gap / xs + hk) / 2;
      if (at <= -100) continue;
      const double rs = sqrt(1 - xs), expansion = 1 + c * xs * (1 + 5 * d * xs);
      const double exact = exp(-(hk / 2) * xs / ((1 + rs) * (1 + rs))) / rs;
      integral += kWeights[2][i / 2] * exp(at) * (expansion - exact);
    }
    sum = (root / 2 * integral - sum) / kTwoPi;
  }
  if (rho > 0) return sum + normcdf(-fmax(h, k));
  if (h >= k) return -sum;
  return (h < 0 ? normcdf(k) - normcdf(h) : normcdf(-h) - normcdf(-k)) - sum;
}

__device__ __noinline__ double upper_probability(double h, double k, double rho) {
  const double size = fabs(rho);
  if (size >= 0.925) return fmin(1.0, fmax(0.0, upper_probability_near_one(h, k, rho)));
  const int rule = size < 0.3 ? 0 : (size < 0.75 ? 1 : 2), points = rule == 0 ? 6 : (rule == 1 ? 12 : 20);
  const double half = asin(rho) / 2, hs = (h * h + k * k) / 2;
  double sum = 0;
  for (int i = 0; i < points; ++i) {
    const double sine = sin(half * (1 + (i % 2 ? 1 : -1) * kNodes[rule][i / 2]));
    sum += kWeights[rule][i / 2] * exp((sine * h * k - hs) / (1 - sine * sine));
  }
  return fmin(1.0, fmax(0.0, sum * half / kTwoPi + normcdf(-h) * normcdf(-k)));
}

__device__ __noinline__ double step_moment(double h, double k, double rho) {
  if (rho >= 1) return normcdf(fmin(h, k));
  if (rho <= -1) return fmax(0.0, normcdf(h) - normcdf(-k));
  return upper_probability(-h, -k, rho);
}

// (h k + rho) Phi2 + k phi(h) Phi(u) + h phi(k) Phi(v) + q phi(h) phi(u), u = (k - rho h) / q, v = (h - rho
// k) / q
__device__ __noinline__ double relu_moment(double h, double k, double rho) {
  if (rho >= 1) {
    const double m = fmin(h, k);
    return fmax(0.0, (h * k + 1) * normcdf(m) + fmax(h, k) * density(m));
  }
  if (rho <= -1) {  // both positive for -h < g < k
    if (h + k <= 0) return 0;
    return fmax(0.0, (h * k - 1) * (normcdf(h) - normcdf(-k)) + k * density(h) + h * density(k));
  }
  const double q = sqrt((1 - rho) * (1 + rho)), sign = rho < 0 ? -1 : 1, left = 1 - fabs(rho);
  const double u = ((k - sign * h) + sign * left * h) / q, v = ((h - sign * k) + sign * left * k) / q;
  return fmax(0.0, (h * k + rho) * upper_probability(-h, -k, rho) + k * density(h) * normcdf(u) +
                       h * density(k) * normcdf(v) + q * density(h) * density(u));
}

// By Horner's rule. Device code may read values of constants, not their arrays: each is a constant of its
// own.
#define HEADLENS_POLYNOMIAL(name, coefficients)                                                  \
  template <std::size_t I>                                                                       \
  struct name##_coefficient {                                                                    \
    static constexpr double value = coefficients[sizeof(coefficients) / sizeof(double) - 1 - I]; \
  };                                                                                             \
  template <std::size_t... I>                                                                    \
  __device__ inline double name(double x, std::index_sequence<I...>) {                           \
    double sum = 0;                                                                              \
    ((sum = sum * x + name##_coefficient<I>::value), ...);                                       \
    return sum;                                                                                  \
  }                                                                                              \
  __device__ inline double name(double x) {                                                      \
    return name(x, std::make_index_sequence<sizeof(coefficients) / sizeof(double)>());           \
  }
HEADLENS_POLYNOMIAL(kappa_small, kKappaSmall)
HEADLENS_POLYNOMIAL(kappa_large, kKappaLarge)
#undef HEADLENS_POLYNOMIAL

// E[relu(g) relu(g')], as in features/arc_cosine.hpp.
__device__ inline double arc_cosine_moment(double rho) {
  const double size = fabs(rho), square = rho * rho;
  if (size <= kKappaSmallReach) return (1 / kTwoPi + 0.25 * rho) + square * kappa_small(square);
  const double z = fmax(0.0, 0.5 - 0.5 * size);
  return 0.25 * (rho + size) + z * sqrt(z) * kappa_large(z);
}

}  // namespace headlens::cuda

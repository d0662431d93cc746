#include "theory/network_spectrum.hpp"

#include <cmath>
#include <functional>
#include <numbers>

#include "base/parallel.hpp"
#include "headlens/error.hpp"
#include "theory/bessel.hpp"
#include "theory/harmonics.hpp"

namespace headlens {
namespace {

constexpr double kLogStep = 1.0 / 16;  // in log z; halving it changes nothing beyond rounding
constexpr std::size_t kMaxLevels = 50000;
constexpr double kPi = std::numbers::pi;

double log_cosh(double x) {
  if (x < 1) return std::log1p(2 * std::sinh(0.5 * x) * std::sinh(0.5 * x));  // right also where it is 1e-30
  return x + std::log1p(std::exp(-2 * x)) - std::numbers::ln2;
}
double log_sinh(double x) { return x + std::log(-std::expm1(-2 * x)) - std::numbers::ln2; }

double log_sum_exp(const std::vector<double>& logs) {
  double top = logs.front(), sum = 0;
  for (const double value : logs) top = std::max(top, value);
  for (const double value : logs) sum += std::exp(value - top);
  return top + std::log(sum);
}

// How many ways there are to give these degrees, in decreasing order, to so many tokens.
double log_arrangements(const std::vector<Index>& degrees, Index tokens) {
  double sum = 0;
  Index equal = 0;
  for (std::size_t i = 0; i < degrees.size(); ++i) {
    equal = i > 0 && degrees[i] == degrees[i - 1] ? equal + 1 : 1;
    sum += std::log(static_cast<double>(tokens - static_cast<Index>(i)) / static_cast<double>(equal));
  }
  return sum;
}

// All partitions of 1 .. total into at most `parts` parts, each with its sum.
void for_partitions(Index total, Index parts,
                    const std::function<void(const std::vector<Index>&, Index)>& use) {
  std::vector<Index> degrees;
  const std::function<void(Index, Index)> extend = [&](Index sum, Index largest) {
    for (Index next = 1; next <= std::min(largest, total - sum); ++next) {
      degrees.push_back(next);
      use(degrees, sum + next);
      if (static_cast<Index>(degrees.size()) < parts) extend(sum + next, next);
      degrees.pop_back();
    }
  };
  extend(0, total);
}

}  // namespace

NetworkSpectrum::NetworkSpectrum(Index dim, Index keys) : dim_(dim), keys_(keys) {
  // The integrand falls as z near 0; far out at least as z^(-3/2 - (N + 1)(d - 1)/2), once y exceeds the
  // squares of the orders.
  const double tokens = static_cast<double>(keys + 1), d = static_cast<double>(dim);
  const double decay = 1.5 + 0.5 * tokens * (d - 1);
  const double last = std::log(2 * tokens) + 2 * std::log(d + 1000) + 40 / decay;
  for (double log_z = -42; log_z <= last; log_z += kLogStep) {
    const double z = std::exp(log_z), y = 0.5 * z / tokens;
    const double k0 = log_bessel_k0(z), wave = log_plane_wave(dim, 0, y);
    const double common = k0 - log_z + std::log(kLogStep / (kPi * kPi)) + tokens * wave;
    y_.push_back(y);
    log_k0_.push_back(k0);
    log_wave_.push_back(wave);
    log_even_.push_back(common + log_cosh(0.5 * z));
    log_odd_.push_back(common + log_sinh(0.5 * z));
  }
}

// rho is the mean over N + 1 tokens of (1 + <x, x'>) / 2, and E[T P_1(T)] = 1/d.
double NetworkSpectrum::linear() const {
  return 0.25 * 0.5 / (static_cast<double>(keys_ + 1) * static_cast<double>(dim_));
}

double NetworkSpectrum::constant() const {
  double sum = 0.5 / kPi + 0.125;
  for (std::size_t i = 0; i < y_.size(); ++i) {
    // K_0 / z (cosh(z/2) E[exp(y T)]^(N+1) - 1): the 1 matters only where it cancels.
    const double z = 2 * static_cast<double>(keys_ + 1) * y_[i];
    const double growth = log_cosh(0.5 * z) + static_cast<double>(keys_ + 1) * log_wave_[i];
    const double log_scale = log_k0_[i] - std::log(z) + std::log(kLogStep / (kPi * kPi));
    sum += growth < 1 ? std::exp(log_scale) * std::expm1(growth)
                      : std::exp(log_scale + growth) - std::exp(log_scale);
  }
  return sum;
}

double NetworkSpectrum::log_eigenvalue(Index query_degree, Index key_degree) const {
  const Index sum = query_degree + key_degree;
  if (sum == 0) return std::log(constant());
  std::vector<double> logs = sum % 2 == 0 ? log_even_ : log_odd_;
  for (std::size_t i = 0; i < logs.size(); ++i)
    for (const Index degree : {query_degree, key_degree})
      if (degree > 0) logs[i] += log_plane_wave(dim_, degree, y_[i]) - log_wave_[i];
  if (sum == 1) logs.push_back(std::log(linear()));
  return log_sum_exp(logs);
}

Levels NetworkSpectrum::levels(Index degree) const {
  // ratio[a]: E[exp(y T) P_a(T)] / E[exp(y T)] at the nodes. Products of them by recursion over the parts.
  std::vector<std::vector<double>> ratio{{}};
  for (Index a = 1; a <= degree + 1; ++a) {
    std::vector<double>& row = ratio.emplace_back();
    for (std::size_t i = 0; i < y_.size(); ++i)
      row.push_back(std::exp(log_plane_wave(dim_, a, y_[i]) - log_wave_[i]));
  }
  std::vector<std::vector<double>> products{{}};
  for (std::size_t i = 0; i < y_.size(); ++i) products[0].push_back(1);
  std::vector<double> even, odd, harmonics;
  for (const double value : log_even_) even.push_back(std::exp(value));
  for (const double value : log_odd_) odd.push_back(std::exp(value));
  for (Index a = 0; a <= degree + 1; ++a) harmonics.push_back(log_harmonics(dim_, a));

  Levels out;
  double kept = 0;
  for_partitions(degree + 1, keys_ + 1, [&](const std::vector<Index>& degrees, Index sum) {
    heed();
    const std::size_t depth = degrees.size();
    if (products.size() <= depth) products.emplace_back(y_.size());
    const std::vector<double>& factor = ratio[static_cast<std::size_t>(degrees.back())];
    const std::vector<double>& weight = sum % 2 == 0 ? even : odd;
    double eigenvalue = sum == 1 ? linear() : 0.0;
    for (std::size_t i = 0; i < y_.size(); ++i) {
      products[depth][i] = products[depth - 1][i] * factor[i];
      eigenvalue += weight[i] * products[depth][i];
    }
    if (sum > degree) {
      out.largest_left_out = std::max(out.largest_left_out, eigenvalue);
      return;
    }
    double log_count = log_arrangements(degrees, keys_ + 1);
    for (const Index a : degrees) log_count += harmonics[static_cast<std::size_t>(a)];
    out.kept.push_back({eigenvalue, std::exp(log_count)});
    kept += eigenvalue * out.kept.back().multiplicity;
    require(out.kept.size() <= kMaxLevels, option("samples"), ": harmonics beyond degree ", degree - 1,
            " would be needed for so many sets of ", keys_, " keys in dimension ", dim_);
  });
  out.trace = 0.5 - constant();
  out.rest = std::max(0.0, out.trace - kept);
  return out;
}

}  // namespace headlens

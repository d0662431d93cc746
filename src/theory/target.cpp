#include "theory/target.hpp"

#include <cmath>
#include <numbers>

#include "base/log_gamma.hpp"
#include "headlens/error.hpp"
#include "theory/harmonics.hpp"

namespace headlens {
namespace {

struct Share {
  Index degree = 0;
  double log_square = 0;  // log of c_a^2 / D_a, the mean square of c_a P_a(T)
};

std::vector<Share> expand_monomial(Index dim, Index power) {
  std::vector<Share> shares;
  for (Index a = power % 2; a <= power; a += 2)
    shares.push_back({a, log_harmonics(dim, a) + 2 * log_monomial_share(dim, power, a)});
  return shares;
}

// c_0(s) = E[relu(s + g)] = s/2 + 1/sqrt(2 pi) sum_k (-1)^(k+1) s^2k / (2^k k! (2k - 1))
//
// The share of degree a starts with s^a. Later powers alternate and fall at least fourfold, so little
// cancels. High degrees have small shares but large 1 / lambda; the product is largest near degree sqrt(d).
// Ends well beyond.
std::vector<Share> expand_relu_mean(Index dim) {
  const auto log_coefficient = [](Index k) {
    const double j = static_cast<double>(k);
    return -j * std::numbers::ln2 - log_gamma(j + 1) - std::log(std::abs(2 * j - 1)) -
           0.5 * std::log(2 * std::numbers::pi);
  };
  std::vector<Share> shares{{1, -2 * std::numbers::ln2 - std::log(static_cast<double>(dim))}};
  const Index last = 40 + static_cast<Index>(8 * std::sqrt(static_cast<double>(dim)));
  for (Index a = 0; a <= last; a += 2) {
    const double leading = log_coefficient(a / 2) + log_monomial_share(dim, a, a);
    double sum = 0;
    for (Index k = a / 2; k < a / 2 + 40; ++k) {
      const double term = std::exp(log_coefficient(k) + log_monomial_share(dim, 2 * k, a) - leading);
      sum += k % 2 == 1 || k == 0 ? term : -term;
    }
    shares.push_back({a, log_harmonics(dim, a) + 2 * (leading + std::log(std::abs(sum)))});
  }
  return shares;
}

}  // namespace

std::vector<TargetPart> expand(const TaskOptions& task) {
  ensure(task.task != Task::mixture, "a mixture has no expansion");
  const Index dim = task.dim;
  const double d = static_cast<double>(dim), log_keys = std::log(static_cast<double>(task.min_keys));
  const std::vector<Share> shares =
      task.task == Task::native ? expand_relu_mean(dim) : expand_monomial(dim, task.degree);
  std::vector<TargetPart> parts;
  const auto add = [&](Index a, Index b, double log_square) {
    if (task.pure && (a == 0 || b == 0)) return;
    parts.push_back({a, b, log_square - (b > 0 ? log_keys : 0.0)});
  };
  for (const auto& [a, log_square] : shares) {
    const double k = static_cast<double>(a);
    if (task.task == Task::power_mean) {
      add(0, a, log_square);
    } else if (task.task == Task::query_power) {
      add(a, 0, log_square);
    } else if (a == 0) {
      add(0, 1, log_square - std::log(d));
    } else {
      add(a, a - 1, log_square + std::log(k / (d * (2 * k + d - 2))));
      add(a, a + 1, log_square + std::log((k + d - 2) / (d * (2 * k + d - 2))));
    }
  }
  return parts;
}

}  // namespace headlens

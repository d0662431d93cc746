// How many samples a curve needs to reach a given error.
//
// The median over seeds is followed from the smallest n; between the last n above the error and the first at
// or below it, log(error) is linear in log(n). The interval is the 95% percentile bootstrap over seeds: whole
// seeds are drawn, since the points of one seed along a curve belong together.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "report/summarise.hpp"

namespace headlens::report {

using headlens::text;  // the overloads below must not hide that of values

enum class Reach { at_or_before, between, not_reached };

struct Crossing {
  Reach reach = Reach::not_reached;
  double n = 0;  // the smallest n measured, the crossing, or the largest n measured
  auto operator<=>(const Crossing&) const = default;
};
std::string text(const Crossing& crossing);  // "≤ 64", "423", "> 2048"

struct SampleSize {
  double error = 0;
  Crossing estimate;
  std::optional<std::pair<Crossing, Crossing>> interval;  // none from one seed
  bool operator==(const SampleSize&) const = default;
};
std::string text(const SampleSize& size);  // "423 (380 to 510)", "not reached by 2048"

inline constexpr double kErrors[] = {0.5, 0.1, 0.01};

// Empty for a curve without values. `stream` names the random numbers.
std::optional<SampleSize> sample_size(const Curve& curve, double error, std::uint64_t stream);

}  // namespace headlens::report

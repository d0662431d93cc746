#include "report/sample_size.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/random.hpp"
#include "report/escape.hpp"

namespace headlens::report {
namespace {

constexpr std::size_t kDraws = 2000;

struct Step {
  double n = 0, error = 0;
};

Crossing first_crossing(const std::vector<Step>& steps, double error) {
  const auto reached =
      std::find_if(steps.begin(), steps.end(), [&](const Step& s) { return s.error <= error; });
  if (reached == steps.end()) return {Reach::not_reached, steps.back().n};
  if (reached == steps.begin()) return {Reach::at_or_before, steps.front().n};
  const Step &above = *(reached - 1), &below = *reached;
  if (below.error <= 0) return {Reach::between, below.n};  // no logarithm: the point itself is safe
  const double share = std::log(above.error / error) / std::log(above.error / below.error);
  return {Reach::between, above.n * std::pow(below.n / above.n, share)};
}

std::vector<const Point*> measured(const Curve& curve) {
  std::vector<const Point*> points;
  for (const Point& point : curve.points)
    if (!point.values.empty() && std::isfinite(point.x) && point.x > 0) points.push_back(&point);
  return points;
}

std::vector<std::uint64_t> seeds_of(const std::vector<const Point*>& points) {
  std::vector<std::uint64_t> seeds;
  for (const Point* point : points)
    for (const SeedValue& item : point->values) seeds.push_back(item.seed);
  std::sort(seeds.begin(), seeds.end());
  seeds.erase(std::unique(seeds.begin(), seeds.end()), seeds.end());
  return seeds;
}

// The median of a point when seed s counts weight[s] times; nothing where no drawn seed has a value.
std::optional<double> weighted_median(const Point& point, const std::map<std::uint64_t, int>& weight) {
  std::vector<double> values;
  for (const SeedValue& item : point.values)
    values.insert(values.end(), static_cast<std::size_t>(weight.at(item.seed)), item.value);
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  return quantile(values, 0.5);
}

std::optional<Crossing> redrawn(const std::vector<const Point*>& points,
                                const std::vector<std::uint64_t>& seeds, double error, Stream& random) {
  std::map<std::uint64_t, int> weight;
  for (const std::uint64_t seed : seeds) weight[seed] = 0;
  for (std::size_t i = 0; i < seeds.size(); ++i) ++weight[seeds[random.below(seeds.size())]];
  std::vector<Step> steps;
  for (const Point* point : points)
    if (const auto median = weighted_median(*point, weight)) steps.push_back({point->x, *median});
  if (steps.empty()) return std::nullopt;
  return first_crossing(steps, error);
}

std::optional<std::pair<Crossing, Crossing>> interval(const std::vector<const Point*>& points, double error,
                                                      std::uint64_t stream) {
  const std::vector<std::uint64_t> seeds = seeds_of(points);
  if (seeds.size() < 2) return std::nullopt;
  Stream random(0, "sample size bootstrap", stream);
  std::vector<Crossing> draws;
  for (std::size_t i = 0; i < kDraws; ++i)
    if (const auto crossing = redrawn(points, seeds, error, random)) draws.push_back(*crossing);
  std::sort(draws.begin(), draws.end());
  const std::size_t tail = draws.size() / 40;  // 2.5%
  return std::pair{draws[tail], draws[draws.size() - 1 - tail]};
}

// Three digits: the interpolation knows no more.
std::string rounded(double n) {
  const double unit = std::pow(10.0, std::max(0.0, std::floor(std::log10(n)) - 2));
  return number(std::round(n / unit) * unit);
}

}  // namespace

std::string text(const Crossing& crossing) {
  if (crossing.reach == Reach::between) return rounded(crossing.n);
  return (crossing.reach == Reach::at_or_before ? "≤ " : "> ") + number(crossing.n);
}

std::string text(const SampleSize& size) {
  std::string shown = size.estimate.reach == Reach::not_reached ? "not reached by " + number(size.estimate.n)
                                                                : text(size.estimate);
  const bool certain = size.interval && size.interval->first == size.interval->second;
  if (size.interval && !certain)
    shown += " (" + text(size.interval->first) + " to " + text(size.interval->second) + ")";
  return shown;
}

std::optional<SampleSize> sample_size(const Curve& curve, double error, std::uint64_t stream) {
  const std::vector<const Point*> points = measured(curve);
  if (points.empty()) return std::nullopt;
  std::vector<Step> steps;
  for (const Point* point : points) steps.push_back({point->x, point->median});
  return SampleSize{error, first_crossing(steps, error), interval(points, error, stream)};
}

}  // namespace headlens::report

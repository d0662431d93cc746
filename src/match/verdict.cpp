#include "match/verdict.hpp"

#include <algorithm>
#include <cmath>

#include "base/log_gamma.hpp"
#include "headlens/error.hpp"
#include "match/unrelated.hpp"

namespace headlens::matching {
namespace {

double worst_of(const std::vector<MatchedHead>& heads) {
  double worst = 0;
  for (const MatchedHead& head : heads) worst = std::max(worst, head.distance);
  return worst;
}

MatchVerdict verdict_of(double worst, bool equal, double p_value) {
  if (equal && worst <= kSameDistance) return MatchVerdict::same;
  return p_value <= kDerivedLevel ? MatchVerdict::derived : MatchVerdict::unrelated;
}

double constant_distance(const LayerHeads& a, const LayerHeads& b) {
  double difference = 0, of_a = 0, of_b = 0;
  for (Index i = 0; i < a.outputs(); ++i) {
    const double x = a.constant.empty() ? 0 : a.constant.at(i), y = b.constant.empty() ? 0 : b.constant.at(i);
    difference = std::hypot(difference, x - y), of_a = std::hypot(of_a, x), of_b = std::hypot(of_b, y);
  }
  const double distance = relative(difference, of_a, of_b);
  require(std::isfinite(distance), "match: the constants of ", a.name, " and ", b.name,
          " are too large for float64; divide the weights of both layers by one number");
  return distance;
}

double dimension_of(const LayerHeads& layer) {
  const double d = static_cast<double>(layer.dim()), e = static_cast<double>(layer.outputs());
  return std::sqrt(d * std::min(d, e));
}

}  // namespace

Judgement judge(const std::vector<MatchedHead>& heads, double rivals, const Within& within,
                const LayerHeads& like) {
  Judgement out;
  const auto count = static_cast<Index>(heads.size());
  double sum = 0;
  for (const MatchedHead& head : heads) {
    sum += head.theta_overlap + head.w_overlap;
    if (head.theta_overlap + head.w_overlap > 2 * within.largest) ++out.closer;
  }
  out.p_value = chance_beyond(count, rivals, within.pairs, out.closer);
  if (chance_beyond(count, rivals, within.pairs, count) <= kDerivedLevel) return out;
  // Too few pairs for any p-value below the level.
  out.null = MatchNull::rotations;
  const double most = std::max(rivals, static_cast<double>(count));
  out.p_value = chance_of_rotations(sum, 2 * count, dimension_of(like),
                                    log_gamma(most + 1) - log_gamma(most - static_cast<double>(count) + 1));
  return out;
}

MatchedLayer summarise(const LayerHeads& a, const LayerHeads& b, const std::vector<MatchedHead>& heads,
                       const Judgement& judged) {
  MatchedLayer out{.a = a.name, .b = b.name};
  out.worst_distance = worst_of(heads);
  for (const MatchedHead& head : heads) out.mean_overlap += (head.theta_overlap + head.w_overlap) / 2;
  out.mean_overlap /= static_cast<double>(std::max<std::size_t>(heads.size(), 1));
  out.p_value = judged.p_value;
  out.constant_distance = constant_distance(a, b);
  out.other_mask = a.mask && b.mask && a.mask != b.mask;
  const bool all_matched = a.heads() == b.heads() && static_cast<Index>(heads.size()) == a.heads();
  out.verdict = verdict_of(std::max(out.worst_distance, out.constant_distance),
                           all_matched && !out.other_mask, judged.p_value);
  return out;
}

void conclude(const LayerHeads& like, const Totals& totals, Match& out) {
  const double rivals = totals.rivals / static_cast<double>(out.heads.size());
  const Judgement judged = judge(out.heads, rivals, totals.within, like);
  out.p_value = judged.p_value, out.null = judged.null, out.closer = judged.closer;
  out.within_overlap = totals.within.largest;
  for (MatchedHead& head : out.heads)
    head.closer = head.theta_overlap + head.w_overlap > 2 * totals.within.largest;
  out.worst_distance = worst_of(out.heads);
  std::vector<double> distances;
  for (const MatchedHead& head : out.heads) distances.push_back(head.distance);
  std::ranges::sort(distances);
  out.median_distance = distances[(distances.size() - 1) / 2];
  for (std::size_t i = 0; i < out.heads.size(); ++i)
    if (out.heads[i].distance > std::max(kSameDistance, 5 * out.median_distance))
      out.moved.push_back(static_cast<Index>(i));
  double worst = out.worst_distance;
  bool equal = out.unmatched_a.empty() && out.unmatched_b.empty();
  for (const MatchedLayer& layer : out.layers)
    worst = std::max(worst, layer.constant_distance), equal = equal && !layer.other_mask;
  out.verdict = verdict_of(worst, equal, out.p_value);
}

}  // namespace headlens::matching

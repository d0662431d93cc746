// The words of a finding. Every sentence is built from the comparison; none is written in advance.
#include <fmt/format.h>

#include <algorithm>

#include "report/escape.hpp"
#include "report/finding.hpp"

namespace headlens {

std::string name(FindingStatus status) {
  switch (status) {
    case FindingStatus::holds:
      return "holds";
    case FindingStatus::holds_in_part:
      return "holds in part";
    case FindingStatus::does_not_hold:
      return "does not hold";
    case FindingStatus::undecided:
      return "undecided";
  }
  return "";
}

namespace report {
namespace {

using Points = std::vector<const ComparedPoint*>;

template <class Keep>
Points pick(const Comparison& comparison, Keep keep) {
  Points points;
  for (const ComparedPoint& point : comparison.points)
    if (keep(point)) points.push_back(&point);
  return points;
}

Points pick(const Comparison& comparison, Judgement judgement, bool in_range = true) {
  return pick(comparison, [&](const ComparedPoint& point) {
    return point.judgement == judgement && point.in_range == in_range;
  });
}

std::string values_of(const std::string& x, std::size_t count) {
  const std::string plural = count == 1 ? "" : "s";
  if (x == "samples") return "sample size" + plural;
  if (x == "heads") return "number" + plural + " of heads";
  return "value" + plural + " of " + x;
}

// Neighbours of the grid become ranges: "at 64, at 256 to 2048".
std::string places(const Comparison& comparison, const Points& points) {
  std::string text;
  const ComparedPoint* const base = comparison.points.data();
  for (std::size_t i = 0; i < points.size();) {
    std::size_t last = i;
    while (last + 1 < points.size() && points[last + 1] - base == points[last] - base + 1) ++last;
    text += (text.empty() ? "at " : " and at ") + headlens::text(points[i]->x_value);
    if (last > i) text += " to " + headlens::text(points[last]->x_value);
    i = last + 1;
  }
  return text;
}

std::string factor(const ComparedPoint& point) {
  return fmt::format("{} (95% interval {} to {})", number(point.factor), number(point.lower),
                     number(point.upper));
}

std::string inverse_factor(const ComparedPoint& point) {
  return fmt::format("{} (95% interval {} to {})", number(1 / point.factor), number(1 / point.upper),
                     number(1 / point.lower));
}

const ComparedPoint& extreme(const Points& points, bool largest) {
  const auto less = [](const ComparedPoint* a, const ComparedPoint* b) { return a->factor < b->factor; };
  return **(largest ? std::max_element(points.begin(), points.end(), less)
                    : std::min_element(points.begin(), points.end(), less));
}

std::string at(const ComparedPoint& point) { return " at " + text(point.x_value); }

std::string favour(const Comparison& c, const Points& points) {
  if (points.empty()) return "";
  const ComparedPoint &least = extreme(points, false), &most = extreme(points, true);
  std::string text = fmt::format(" The {} of {} is larger than that of {} by a factor of {}{}", c.quantity,
                                 c.worse, c.better, factor(least), at(least));
  if (&least != &most) text += fmt::format(", up to {}{}", factor(most), at(most));
  return text + ".";
}

// "at 64 to 256, by a factor of up to 1.8 (95% interval 1.5 to 2.2) at 64"
std::string opposite_places(const Comparison& c, const Points& points) {
  const ComparedPoint& most = extreme(points, false);
  return points.size() == 1 ? fmt::format("{}, by a factor of {}", places(c, points), inverse_factor(most))
                            : fmt::format("{}, by a factor of up to {}{}", places(c, points),
                                          inverse_factor(most), at(most));
}

std::string opposite(const Comparison& c, const Points& points) {
  if (points.empty()) return "";
  return fmt::format(" The opposite holds {}: there the {} of {} is larger.", opposite_places(c, points),
                     c.quantity, c.better);
}

std::string open(const Comparison& c, const Points& points) {
  if (points.empty()) return "";
  const ComparedPoint &least = extreme(points, false), &most = extreme(points, true);
  std::string text =
      fmt::format(" The seeds do not decide {}: the factor is {}", places(c, points), factor(least));
  if (&least != &most) text += fmt::format("{} and {}{}", at(least), factor(most), at(most));
  return text + ".";
}

std::string outside(const Comparison& c) {
  std::string text;
  if (const Points for_it = pick(c, Judgement::in_favour, false); !for_it.empty())
    text += fmt::format(" Outside the range of the claim it holds too {}.", places(c, for_it));
  if (const Points against = pick(c, Judgement::against, false); !against.empty())
    text +=
        fmt::format(" Outside the range of the claim the opposite holds {}.", opposite_places(c, against));
  return text;
}

std::string evidence(const Comparison& c) {
  const Points tested = pick(c, [](const ComparedPoint& p) { return p.judgement != Judgement::untested; });
  const Points untested = pick(c, Judgement::untested);
  std::string text;
  if (!tested.empty()) {
    const auto less = [](const ComparedPoint* a, const ComparedPoint* b) { return a->seeds < b->seeds; };
    const auto [fewest, most] = std::minmax_element(tested.begin(), tested.end(), less);
    text += (*fewest)->seeds == (*most)->seeds
                ? fmt::format(" {} paired seeds.", (*most)->seeds)
                : fmt::format(" {} to {} paired seeds.", (*fewest)->seeds, (*most)->seeds);
  }
  if (!untested.empty() && !tested.empty())
    text += fmt::format(" Too few finished pairs to judge {}.", places(c, untested));
  Index dropped = 0;
  for (const ComparedPoint& point : c.points) dropped += point.dropped;
  if (dropped > 0)
    text += fmt::format(" {} {} left out: a value is zero, negative or not a number.", dropped,
                        dropped == 1 ? "pair is" : "pairs are");
  return text;
}

// "all 5 sample sizes tested", "both sample sizes tested in its range"
std::string all_of(const Comparison& c, std::size_t judged) {
  const Points outside = pick(c, [](const ComparedPoint& p) { return !p.in_range; });
  return fmt::format("{} {}{}",
                     judged == 1   ? "the one"
                     : judged == 2 ? "both"
                                   : fmt::format("all {}", judged),
                     values_of(c.x, judged), outside.empty() ? " tested" : " tested in its range");
}

std::string opening(FindingStatus status, const Comparison& c, std::size_t held, std::size_t judged) {
  switch (status) {
    case FindingStatus::holds:
      return fmt::format("Holds at {}.", all_of(c, judged));
    case FindingStatus::holds_in_part:
      return fmt::format("Holds in part: at {} of {} {}, namely {}.", held, judged, values_of(c.x, judged),
                         places(c, pick(c, Judgement::in_favour)));
    case FindingStatus::does_not_hold:
      return judged == 1 ? fmt::format("Does not hold at {}.", all_of(c, judged))
                         : fmt::format("Does not hold at any of {} {}.", judged, values_of(c.x, judged));
    case FindingStatus::undecided:
      return judged == 0 ? "Cannot be judged: that takes two seeds on which both sides have finished."
                         : fmt::format("Not decided at {}.", all_of(c, judged));
  }
  return "";
}

}  // namespace

FindingResult judge(const Comparison& comparison, const FindingSpec& spec) {
  const Points held = pick(comparison, Judgement::in_favour), against = pick(comparison, Judgement::against),
               undecided = pick(comparison, Judgement::undecided);
  const std::size_t judged = held.size() + against.size() + undecided.size();
  FindingResult result{.text = spec.text};
  result.status = held.empty() && against.empty() ? FindingStatus::undecided
                  : held.empty()                  ? FindingStatus::does_not_hold
                  : held.size() == judged         ? FindingStatus::holds
                                                  : FindingStatus::holds_in_part;
  result.verdict = opening(result.status, comparison, held.size(), judged) + favour(comparison, held) +
                   opposite(comparison, against) + open(comparison, undecided) + outside(comparison) +
                   evidence(comparison);
  return result;
}

}  // namespace report
}  // namespace headlens

// The words of a finding. Every sentence is built from the comparison; none is written in advance.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/escape.hpp"
#include "report/finding.hpp"
#include "report/vocabulary.hpp"

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

// Neighbours of the grid become ranges: "64 training sets and 256 to 2048 training sets".
std::string places(const Comparison& c, const Points& points) {
  std::string words;
  const ComparedPoint* const base = c.points.data();
  for (std::size_t i = 0; i < points.size();) {
    std::size_t last = i;
    while (last + 1 < points.size() && points[last + 1] - base == points[last] - base + 1) ++last;
    std::string values = text(points[i]->x_value);
    if (last > i) values += " to " + text(points[last]->x_value);
    words += (words.empty() ? "" : " and ") + with_unit(c.x, values);
    i = last + 1;
  }
  return words;
}

std::string place(const Comparison& c, const ComparedPoint& point) { return label(c.x, point.x_value); }

// As many digits as a reader can use: 1.03, 3.2, 17, 1400, 2·10⁶.
std::string times(double factor) {
  if (factor < 2) return number(factor, 3);
  if (factor < 9.95) return fmt::format("{:.2g}", factor);
  const double unit = std::pow(10.0, std::floor(std::log10(factor)) - 1);
  return axis_number(std::round(factor / unit) * unit);
}

struct Factor {
  double value = 0, lower = 0, upper = 0;
};
Factor of(const ComparedPoint& point) { return {point.factor, point.lower, point.upper}; }
Factor inverse(const ComparedPoint& point) { return {1 / point.factor, 1 / point.upper, 1 / point.lower}; }

std::string range(const Factor& factor) {
  return fmt::format("{} to {}", times(factor.lower), times(factor.upper));
}
std::string interval(const Factor& factor) { return "95% interval " + range(factor); }

const ComparedPoint& extreme(const Points& points, bool largest) {
  const auto less = [](const ComparedPoint* a, const ComparedPoint* b) { return a->factor < b->factor; };
  return **(largest ? std::max_element(points.begin(), points.end(), less)
                    : std::min_element(points.begin(), points.end(), less));
}

// "error (nmse) of RFMLP is at least 3.2 times that of RFA (at 64 training sets; 95% interval 1.9 to 5.4) and
// at most 17 times (at 256; 13 to 21)"
std::string in_favour(const Comparison& c, const Points& points) {
  const ComparedPoint &least = extreme(points, false), &most = extreme(points, true);
  const std::string subject = fmt::format("{} of {} is", term(c.quantity), c.worse);
  if (&least == &most)
    return fmt::format("{} {} times that of {} ({})", subject, times(least.factor), c.better,
                       interval(of(least)));
  return fmt::format("{} at least {} times that of {} (at {}; {}) and at most {} times (at {}; {})", subject,
                     times(least.factor), c.better, place(c, least), interval(of(least)), times(most.factor),
                     text(most.x_value), range(of(most)));
}

// The same with the sides exchanged, at the point where it is strongest.
std::string against(const Comparison& c, const Points& points) {
  const ComparedPoint& most = extreme(points, false);
  const Factor factor = inverse(most);
  return fmt::format("the {} of {} is {}{} times that of {} ({}{})", term(c.quantity), c.better,
                     points.size() > 1 ? "up to " : "", times(factor.value), c.worse,
                     points.size() > 1 ? "at " + place(c, most) + "; " : "", interval(factor));
}

std::string open(const Comparison& c, const Points& points) {
  if (points.empty()) return "";
  const ComparedPoint &least = extreme(points, false), &most = extreme(points, true);
  const std::string which = fmt::format("At {} the seeds leave open which is smaller: the {} of {} is ",
                                        places(c, points), term(c.quantity), c.worse);
  if (&least == &most)
    return fmt::format(" {}{} times that of {} ({}, which contains 1).", which, times(least.factor), c.better,
                       interval(of(least)));
  return fmt::format(
      " {}between {} times (at {}; {}) and {} times (at {}; {}) that of {}, and every interval contains 1.",
      which, times(least.factor), place(c, least), interval(of(least)), times(most.factor),
      text(most.x_value), range(of(most)), c.better);
}

std::string opposite(const Comparison& c, const Points& points) {
  return points.empty()
             ? ""
             : fmt::format(" At {} the opposite holds: {}.", places(c, points), against(c, points));
}

std::string outside(const Comparison& c) {
  std::string words;
  if (const Points held = pick(c, Judgement::in_favour, false); !held.empty())
    words += fmt::format(" Beyond the range of the claim it holds as well, at {}.", places(c, held));
  if (const Points opposed = pick(c, Judgement::against, false); !opposed.empty())
    words += fmt::format(" Beyond the range of the claim, at {}, the opposite holds: {}.", places(c, opposed),
                         against(c, opposed));
  return words;
}

std::string evidence(const Comparison& c) {
  const Points tested = pick(c, [](const ComparedPoint& p) { return p.judgement != Judgement::untested; });
  const Points untested = pick(c, Judgement::untested);
  std::string words;
  if (!tested.empty()) {
    const auto less = [](const ComparedPoint* a, const ComparedPoint* b) { return a->seeds < b->seeds; };
    const auto [fewest, most] = std::minmax_element(tested.begin(), tested.end(), less);
    const std::string seeds = (*fewest)->seeds == (*most)->seeds
                                  ? fmt::format("{}", (*most)->seeds)
                                  : fmt::format("{} to {}", (*fewest)->seeds, (*most)->seeds);
    words += fmt::format(" Each factor comes from {} seeds.", seeds);
  }
  if (!untested.empty() && !tested.empty())
    words += fmt::format(" At {} fewer than two seeds have finished on both sides, too few to judge.",
                         places(c, untested));
  Index dropped = 0;
  for (const ComparedPoint& point : c.points) dropped += point.dropped;
  if (dropped > 0)
    words += fmt::format(" {} {} left out because a value is zero, negative or not a number.", dropped,
                         dropped == 1 ? "pair is" : "pairs are");
  return words;
}

std::string where(const Comparison& c) { return c.where.empty() ? "" : " (" + c.where + ")"; }

Points of_range(const Comparison& c) {
  return pick(c, [](const ComparedPoint& p) { return p.in_range; });
}

// "all 5 numbers of training sets tested (degree 1)"
std::string tested_values(const Comparison& c, std::size_t judged, const std::string& every) {
  const Points inside = of_range(c);
  const bool whole = inside.size() == c.points.size();
  if (judged == 1) {
    const auto only = std::find_if(inside.begin(), inside.end(), [](const ComparedPoint* p) {
      return p->judgement != Judgement::untested;
    });
    return place(c, **only) + ", the only value tested" + (whole ? "" : " in the range of the claim") +
           where(c);
  }
  const std::string count = judged == 2 && every == "all" ? "both" : fmt::format("{} {}", every, judged);
  return fmt::format("{} {} tested", count, values_of(c.x)) +
         (whole ? "" : " in the range of the claim, " + places(c, inside)) + where(c);
}

std::string cannot_be_judged(const Comparison& c) {
  if (of_range(c).empty())
    return "Cannot be judged: the study has no cells for this comparison in the range of the claim.";
  return fmt::format(
      "Cannot be judged yet: at {}{} fewer than two seeds have finished for both {} and {}. Finish the study "
      "with "
      "'headlens study run', or give it more seeds.",
      places(c, of_range(c)), where(c), c.better, c.worse);
}

std::string opening(FindingStatus status, const Comparison& c, std::size_t judged) {
  const Points held = pick(c, Judgement::in_favour);
  switch (status) {
    case FindingStatus::holds:
      return fmt::format("Holds at {}. The {}.", tested_values(c, judged, "all"), in_favour(c, held));
    case FindingStatus::holds_in_part:
      return fmt::format("Holds at {} of {}, namely at {}. There the {}.", held.size(),
                         tested_values(c, judged, "the"), places(c, held), in_favour(c, held));
    case FindingStatus::does_not_hold:
      return fmt::format("Does not hold at {}.", tested_values(c, judged, "any of the"));
    case FindingStatus::undecided:
      return judged == 0 ? cannot_be_judged(c)
                         : fmt::format("Is not decided at {}.", tested_values(c, judged, "any of the"));
  }
  return "";
}

}  // namespace

FindingResult judge(const Comparison& comparison, const FindingSpec& spec) {
  const Points held = pick(comparison, Judgement::in_favour), opposed = pick(comparison, Judgement::against),
               undecided = pick(comparison, Judgement::undecided);
  const std::size_t judged = held.size() + opposed.size() + undecided.size();
  FindingResult result{.text = spec.text};
  result.status = held.empty() && opposed.empty() ? FindingStatus::undecided
                  : held.empty()                  ? FindingStatus::does_not_hold
                  : held.size() == judged         ? FindingStatus::holds
                                                  : FindingStatus::holds_in_part;
  result.verdict = opening(result.status, comparison, judged) + opposite(comparison, opposed) +
                   open(comparison, undecided) + outside(comparison) +
                   (judged > 0 ? evidence(comparison) : "");
  return result;
}

}  // namespace report
}  // namespace headlens

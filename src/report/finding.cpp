#include "report/finding.hpp"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <map>

#include "report/draw/style_book.hpp"
#include "report/vocabulary.hpp"

namespace headlens::report {
namespace {

bool matches(const StudyCell& cell, const StudyValues& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const auto& item) {
    const StudyValue* value = find(cell.axes, item.first);
    return value != nullptr && same(*value, item.second);
  });
}

// What has to be equal in a pair: the seed, and every axis on which the two sides do not differ.
std::string pair_key(const StudyCell& cell, const FindingSpec& spec) {
  std::string key = std::to_string(cell.seed);
  for (const auto& [name, value] : cell.axes)
    if (find(spec.better, name) == nullptr && find(spec.worse, name) == nullptr)
      key += '\x1f' + name + '\x1f' + text(value);
  return key;
}

double measured(const StudyCell& cell, const std::string& quantity) {
  const StudyValue* output = cell.status == CellStatus::done ? find(cell.outputs, quantity) : nullptr;
  return output == nullptr ? kNoNumber : as_number(*output).value_or(kNoNumber);
}

// The log ratios at one x, by seed; several pairs of a seed (an axis the claim leaves open) are averaged, so
// that seeds stay the unit that is independent.
struct Ratios {
  std::map<std::uint64_t, std::vector<double>> by_seed;
  Index dropped = 0;

  void add(std::uint64_t seed, double better, double worse) {
    const double ratio = std::log(worse) - std::log(better);
    if (better > 0 && worse > 0 && std::isfinite(ratio))
      by_seed[seed].push_back(ratio);
    else
      ++dropped;
  }
};

Judgement judgement_of(const ComparedPoint& point) {
  if (point.seeds < 2) return Judgement::untested;
  if (point.lower > 1) return Judgement::in_favour;
  return point.upper < 1 ? Judgement::against : Judgement::undecided;
}

void test(ComparedPoint& point, const Ratios& ratios, double level) {
  point.dropped = ratios.dropped;
  point.seeds = static_cast<Index>(ratios.by_seed.size());
  if (point.seeds == 0) return;
  std::vector<double> values;
  double sum = 0, squares = 0;
  for (const auto& [seed, list] : ratios.by_seed) {
    double mean = 0;
    for (const double ratio : list) mean += ratio / static_cast<double>(list.size());
    values.push_back(mean);
    sum += mean;
    point.wins += mean > 0;
  }
  const auto count = static_cast<double>(point.seeds);
  const double mean = sum / count;
  for (const double value : values) squares += (value - mean) * (value - mean);
  point.factor = std::exp(mean);
  if (point.seeds < 2) return;
  const double half = student_quantile(point.seeds - 1, level) * std::sqrt(squares / (count - 1) / count);
  point.lower = std::exp(mean - half);
  point.upper = std::exp(mean + half);
  point.judgement = judgement_of(point);
}

// The values by which the sides differ: "RFA" against "RFMLP", "degree 1" against "degree 3".
std::string side(const StudyValues& values) {
  std::string words;
  for (const auto& [name, value] : values) words += (words.empty() ? "" : ", ") + label(name, value);
  return words;
}

bool in_range(double x, const FindingSpec& spec) {
  return std::isnan(x) || (x >= spec.from && (spec.to <= 0 || x <= spec.to));
}

}  // namespace

double student_quantile(Index degrees, double level) {
  const boost::math::students_t distribution(static_cast<double>(degrees));
  return boost::math::quantile(boost::math::complement(distribution, (1 - level) / 2));
}

Comparison compare(const StudyResults& results, const FindingSpec& spec) {
  Comparison comparison{
      side(spec.better), side(spec.worse), spec.quantity, spec.x, side(spec.where), "", "", {}};
  std::map<std::string, const StudyCell*> partners;
  for (const StudyCell& cell : results.cells)
    if (matches(cell, spec.where) && matches(cell, spec.worse)) {
      partners[pair_key(cell, spec)] = &cell;
      comparison.worse_identity = identity_of(cell.inputs, comparison.worse);
    }
  std::vector<Ratios> ratios;
  for (const StudyCell& cell : results.cells) {
    const auto partner = partners.find(pair_key(cell, spec));
    if (partner == partners.end() || !matches(cell, spec.where) || !matches(cell, spec.better)) continue;
    comparison.better_identity = identity_of(cell.inputs, comparison.better);
    const StudyValue* found = find(cell.axes, spec.x);
    const StudyValue x = found == nullptr ? StudyValue("") : *found;
    auto point = std::find_if(comparison.points.begin(), comparison.points.end(),
                              [&](const ComparedPoint& p) { return same(p.x_value, x); });
    if (point == comparison.points.end()) {
      const double at = as_number(x).value_or(kNoNumber);
      comparison.points.push_back({.x_value = x, .x = at, .in_range = in_range(at, spec)});
      ratios.emplace_back();
      point = comparison.points.end() - 1;
    }
    const bool both = cell.status == CellStatus::done && partner->second->status == CellStatus::done;
    if (both)
      ratios[static_cast<std::size_t>(point - comparison.points.begin())].add(
          cell.seed, measured(cell, spec.quantity), measured(*partner->second, spec.quantity));
  }
  const auto tested =
      std::count_if(ratios.begin(), ratios.end(), [](const Ratios& r) { return r.by_seed.size() > 1; });
  const double level = 1 - 0.05 / static_cast<double>(std::max<Index>(tested, 1));
  for (std::size_t i = 0; i < ratios.size(); ++i) test(comparison.points[i], ratios[i], level);
  std::stable_sort(comparison.points.begin(), comparison.points.end(),
                   [](const ComparedPoint& a, const ComparedPoint& b) { return comes_first(a.x, b.x); });
  return comparison;
}

}  // namespace headlens::report

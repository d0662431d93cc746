// Golden section and parabolas over penalties against the search of all of them.
#include "fit/ridge/path_search.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/random.hpp"
#include "fit/penalties.hpp"
#include "reference/random_sets.hpp"

namespace headlens::training {
namespace {

// Errors that are told, by the number of the penalty; penalties from `end` on are not resolved.
class ToldPath final : public backend::ShiftPath {
 public:
  ToldPath(std::vector<double> errors, Index end, bool one)
      : errors_(std::move(errors)), end_(end), one_(one) {}
  std::vector<double> leave_one_out(const std::vector<double>& shifts) override {
    ++asked;
    std::vector<double> out;
    for (const double shift : shifts) {
      const Index k = std::lround(-2 * std::log10(shift / 10));  // ten examples
      if (k >= end_) break;
      out.push_back(errors_[std::size_t(k)]);
    }
    return out;
  }
  bool one_factor() const override { return one_; }
  std::unique_ptr<backend::Factor> factor(double) override { return nullptr; }

  int asked = 0;

 private:
  std::vector<double> errors_;
  Index end_;
  bool one_;
};

std::vector<double> half_decades(Index count) {
  std::vector<double> out;
  for (Index k = 0; k < count; ++k) out.push_back(std::pow(10.0, -0.5 * double(k)));
  return out;
}

PathTrials search(const std::vector<double>& errors, Index end, bool one, int* asked = nullptr) {
  ToldPath path(errors, end, one);
  PathTrials out = try_penalties(path, half_decades(std::ssize(errors)), 10);
  if (asked) *asked = path.asked;
  return out;
}

// Errors that fall until `least` and rise after it, by random steps.
std::vector<double> valley(Index count, Index least, std::uint64_t seed) {
  Stream stream(seed, "valley");
  std::vector<double> out(std::size_t(count), 1.0);
  for (Index k = least - 1; k >= 0; --k)
    out[std::size_t(k)] = out[std::size_t(k + 1)] + std::exp(stream.normal());
  for (Index k = least + 1; k < count; ++k)
    out[std::size_t(k)] = out[std::size_t(k - 1)] + std::exp(stream.normal());
  return out;
}

TEST(PathSearch, FindsTheLeastErrorOfEveryValley) {
  for (Index count = 1; count <= 30; ++count)
    for (Index least = 0; least < count; ++least) {
      const std::vector<double> errors = valley(count, least, std::uint64_t(100 * count + least));
      int asked = 0;
      const PathTrials some = search(errors, count, false, &asked), all = search(errors, count, true);
      EXPECT_EQ(some.trials[std::size_t(best_trial(some.trials))].ridge,
                all.trials[std::size_t(best_trial(all.trials))].ridge);
      EXPECT_FALSE(some.cut);
      EXPECT_EQ(asked, std::ssize(some.trials)) << "no penalty is asked for twice";
      // Golden section alone needs two fewer at most; on errors of fits, parabolas need fewer on average.
      EXPECT_LE(asked, 4 + int(std::log(double(count)) / std::log(1.618))) << count;
    }
}

// A valley of which the precision sees the first penalties: the same choice, or both at the edge of what it
// sees.
TEST(PathSearch, StopsWhereThePrecisionEnds) {
  for (Index end = 1; end < 20; ++end)
    for (Index least = 0; least < 20; ++least) {
      const std::vector<double> errors = valley(20, least, std::uint64_t(31 * end + least));
      const PathTrials some = search(errors, end, false), all = search(errors, end, true);
      const Index at = best_trial(some.trials), plain = best_trial(all.trials);
      EXPECT_EQ(some.trials[std::size_t(at)].ridge, all.trials[std::size_t(plain)].ridge);
      const bool edge = some.cut && at + 1 == std::ssize(some.trials);
      EXPECT_EQ(edge, plain + 1 == end) << end << " " << least;
    }
}

TEST(PathSearch, PassesOverMatricesThatAreNotDefinite) {
  std::vector<double> errors = valley(20, 7, 3);
  for (std::size_t k = 12; k < 20; ++k) errors[k] = std::numeric_limits<double>::infinity();
  const PathTrials some = search(errors, 20, false);
  EXPECT_EQ(some.trials[std::size_t(best_trial(some.trials))].ridge, half_decades(20)[7]);
}

// The errors of fits: below and beyond interpolation, with labels that can be learned and with noise alone. A
// curve may have a second valley, and then hardly a deeper one: 47 of these 48 choices are the same.
TEST(PathSearch, ChoosesAsTheWholeCurveDoes) {
  int same = 0;
  for (const auto& [count, heads] : {std::pair<Index, Index>{40, 30}, {90, 10}, {150, 25}, {200, 8}})
    for (const double noise : {0.0, 0.3, 3.0, 30.0})
      for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        LabelledSets data = reference::labelled(reference::equal_sets<double>(count, 4, 3, seed), seed, 1);
        Stream stream(seed, "noise");
        for (double& y : data.targets.values) y += noise * stream.normal();
        FitOptions options;
        options.features.heads = heads;
        options.features.seed = seed;
        const std::vector<RidgeTrial> whole = fit(data, options, {.threads = 1}).report.trials;
        std::vector<double> errors;
        for (const RidgeTrial& trial : whole) errors.push_back(trial.error);
        const PathTrials some = search(errors, std::ssize(errors), false);
        const double chosen = some.trials[std::size_t(best_trial(some.trials))].error;
        const double least = whole[std::size_t(best_trial(whole))].error;
        EXPECT_LE(chosen, 1.001 * least) << count << " sets, noise " << noise << ", seed " << seed;
        same += chosen == least;
      }
  EXPECT_GE(same, 46);
}

}  // namespace
}  // namespace headlens::training

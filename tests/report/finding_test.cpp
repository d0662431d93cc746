// Verdicts on planted truths: what holds, what does not, where, and by how much.
#include "report/finding.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.hpp"
#include "report/planted.hpp"

namespace headlens::report {
namespace {

using namespace std::string_literals;
using testing::HasSubstr;
using testing::Not;

FindingSpec claim() {
  return {"A beats B.", "nmse", "samples", {{"model", "A"s}}, {{"model", "B"s}}, {}, 0, 0};
}

// B / A = factor(n), with the noise of the sets shared by the pair and a little of its own.
StudyResults study(std::size_t seeds, const std::function<double(double)>& factor, double noise = 0.05) {
  return planted({axis("samples", {64L, 128L, 256L, 512L, 1024L}), axis("model", {"A"s, "B"s})}, seeds,
                 [=](const StudyValues& axes, std::uint64_t seed) -> StudyValues {
                   const double n = number(axes, "samples");
                   const bool a = word(axes, "model") == "A";
                   Stream sets(seed, "sets", static_cast<std::uint64_t>(n));
                   Stream own(seed, a ? "A" : "B", static_cast<std::uint64_t>(n));
                   const double error = std::exp(sets.normal() + noise * own.normal());
                   return {{"nmse", a ? error : error * factor(n)}};
                 });
}

FindingResult verdict(const StudyResults& results, const FindingSpec& spec) {
  return judge(compare(results, spec), spec);
}

TEST(StudentQuantile, AgreesWithTables) {
  // Two-sided 95%, as printed in any table.
  EXPECT_NEAR(student_quantile(1, 0.95), 12.7062, 5e-5);
  EXPECT_NEAR(student_quantile(2, 0.95), 4.3027, 5e-5);
  EXPECT_NEAR(student_quantile(3, 0.95), 3.1824, 5e-5);
  EXPECT_NEAR(student_quantile(4, 0.95), 2.7764, 5e-5);
  EXPECT_NEAR(student_quantile(9, 0.95), 2.2622, 5e-5);
  EXPECT_NEAR(student_quantile(30, 0.95), 2.0423, 5e-5);
  EXPECT_NEAR(student_quantile(1000, 0.95), 1.9623, 5e-5);
  EXPECT_NEAR(student_quantile(4, 0.99), 4.6041, 5e-5);
  EXPECT_NEAR(student_quantile(1, 0.999), 636.619, 5e-4);
}

TEST(Compare, PairsAndMeasuresByHand) {
  // Log ratios of the three seeds: log 2, log 4, log 8. Mean log 4, sd log 2, half = 4.3027 log 2 / sqrt 3.
  StudyResults results = planted(
      {axis("samples", {64L}), axis("model", {"A"s, "B"s})}, 3,
      [](const StudyValues& axes, std::uint64_t seed) -> StudyValues {
        const double base = static_cast<double>(10 * seed);
        return {
            {"nmse", word(axes, "model") == "A" ? base : base * std::pow(2.0, static_cast<double>(seed))}};
      });
  const ComparedPoint point = compare(results, claim()).points.at(0);
  EXPECT_EQ(point.seeds, 3);
  EXPECT_EQ(point.wins, 3);
  EXPECT_NEAR(point.factor, 4, 1e-13);
  EXPECT_NEAR(point.lower, 4 * std::pow(2.0, -4.302653 / std::sqrt(3.0)), 1e-6);
  EXPECT_NEAR(point.upper, 4 * std::pow(2.0, 4.302653 / std::sqrt(3.0)), 1e-4);
  EXPECT_EQ(point.judgement, Judgement::undecided);  // 4 / 5.6 < 1
}

TEST(Finding, Holds) {
  const FindingResult result = verdict(study(8, [](double) { return 3.0; }), claim());
  EXPECT_EQ(result.status, FindingStatus::holds);
  EXPECT_EQ(result.text, "A beats B.");
  EXPECT_THAT(result.verdict,
              testing::MatchesRegex(
                  "Holds at all 5 numbers of training sets tested\\. The error \\(nmse\\) of B is at "
                  "least [23.0-9]+ times that of A \\(at [0-9]+ training sets; 95% interval [0-9.]+ to "
                  "[0-9.]+\\) and at most [0-9.]+ times \\(at [0-9]+; [0-9.]+ to [0-9.]+\\)\\. Each "
                  "factor comes from 8 seeds\\."));
}

TEST(Finding, DoesNotHold) {
  const FindingResult result = verdict(study(8, [](double) { return 0.5; }), claim());
  EXPECT_EQ(result.status, FindingStatus::does_not_hold);
  EXPECT_THAT(result.verdict, HasSubstr("Does not hold at any of the 5 numbers of training sets tested."));
  EXPECT_THAT(result.verdict,
              HasSubstr("At 64 to 1024 training sets the opposite holds: the error (nmse) of A is up to "));
}

TEST(Finding, NamesTheWindow) {
  const FindingResult result =
      verdict(study(8, [](double n) { return n >= 128 && n <= 512 ? 2.0 : 0.5; }), claim());
  EXPECT_EQ(result.status, FindingStatus::holds_in_part);
  EXPECT_THAT(result.verdict, HasSubstr("Holds at 3 of the 5 numbers of training sets tested, namely at 128 "
                                        "to 512 training sets. There the "));
  EXPECT_THAT(result.verdict, HasSubstr("At 64 training sets and 1024 training sets the opposite holds: "));
}

TEST(Finding, NoDifferenceIsUndecided) {
  const FindingResult result = verdict(study(8, [](double) { return 1.0; }), claim());
  EXPECT_EQ(result.status, FindingStatus::undecided);
  EXPECT_THAT(result.verdict, HasSubstr("At 64 to 1024 training sets the seeds leave open which is smaller"));
  EXPECT_THAT(verdict(study(
                          8, [](double) { return 1.0; }, 0),
                      claim())
                  .verdict,
              HasSubstr("the error (nmse) of B is 1 times that of A"));
}

TEST(Finding, IsSeldomFoundInNoise) {
  // Claims about nothing: at most 5% of them may be decided anywhere, over all five sample sizes together.
  // Five separate intervals would decide 1 - 0.95^5 = 23%. Three standard deviations above 5% are 8.3%.
  int decided = 0;
  constexpr int kStudies = 400;
  for (std::uint64_t i = 0; i < kStudies; ++i) {
    const StudyResults results = planted({axis("samples", {1L, 2L, 3L, 4L, 5L}), axis("model", {"A"s, "B"s})},
                                         5, [i](const StudyValues& axes, std::uint64_t seed) -> StudyValues {
                                           const auto n = static_cast<std::uint64_t>(number(axes, "samples"));
                                           Stream random(seed, word(axes, "model"), 10 * i + n);
                                           return {{"nmse", std::exp(random.normal())}};
                                         });
    decided += verdict(results, claim()).status != FindingStatus::undecided;
  }
  EXPECT_LT(decided, 0.083 * kStudies);
  EXPECT_GT(decided, 0);
}

TEST(Finding, IsAboutItsRange) {
  FindingSpec spec = claim();
  spec.from = 256;
  const StudyResults results = study(8, [](double n) { return n >= 256 ? 2.0 : 0.5; });
  EXPECT_EQ(verdict(results, spec).status, FindingStatus::holds);
  EXPECT_THAT(verdict(results, spec).verdict,
              HasSubstr("Holds at all 3 numbers of training sets tested in the range of the claim, 256 to "
                        "1024 training sets."));
  EXPECT_THAT(verdict(results, spec).verdict,
              HasSubstr("Beyond the range of the claim, at 64 to 128 training sets, the opposite holds: the "
                        "error (nmse) of A is up to "));
  spec.from = 0, spec.to = 256;
  EXPECT_EQ(verdict(results, spec).status, FindingStatus::holds_in_part);
  EXPECT_THAT(verdict(results, spec).verdict,
              HasSubstr("Beyond the range of the claim it holds as well, at 512 to 1024 training sets."));
}

TEST(Finding, OneSeedCannotJudge) {
  const FindingResult result = verdict(study(1, [](double) { return 3.0; }), claim());
  EXPECT_EQ(result.status, FindingStatus::undecided);
  EXPECT_EQ(result.verdict,
            "Cannot be judged yet: at 64 to 1024 training sets fewer than two seeds have finished for both A "
            "and B. Finish "
            "the study with 'headlens study run', or give it more seeds.");
}

TEST(Finding, SaysWhyItCannotBeJudgedWithoutSpeakingOfOtherPlaces) {
  // Pairs outside the range have finished, none inside: their number says nothing of the claim.
  FindingSpec spec = claim();
  spec.from = 1024;
  StudyResults results = study(2, [](double) { return 3.0; });
  for (StudyCell& cell : results.cells)
    if (number(cell.axes, "samples") == 1024) cell.status = CellStatus::missing;
  const FindingResult result = verdict(results, spec);
  EXPECT_EQ(result.status, FindingStatus::undecided);
  EXPECT_THAT(result.verdict, HasSubstr("Cannot be judged yet: at 1024 training sets fewer than two seeds"));
  EXPECT_THAT(result.verdict, Not(HasSubstr("2 seeds")));
  spec.from = 5000;
  EXPECT_THAT(verdict(results, spec).verdict, HasSubstr("the study has no cells for this comparison"));
}

TEST(Finding, NamesTheOneValueAndTheCellsOfTheClaim) {
  StudyResults results =
      planted({axis("samples", {64L, 128L}), axis("model", {"A"s, "B"s}), axis("degree", {1L, 2L})}, 3,
              [](const StudyValues& axes, std::uint64_t) -> StudyValues {
                return {{"nmse", word(axes, "model") == "A" ? 1.0 : 2.5}};
              });
  FindingSpec spec = claim();
  spec.where = {{"degree", 2L}};
  spec.from = 128;
  EXPECT_THAT(
      verdict(results, spec).verdict,
      HasSubstr("Holds at 128 training sets, the only value tested in the range of the claim (degree 2). The "
                "error (nmse) of B is 2.5 times that of A (95% interval 2.5 to 2.5). Beyond"));
}

TEST(Finding, WorksOnAPart) {
  StudyResults results = study(6, [](double) { return 3.0; });
  for (StudyCell& cell : results.cells) {
    const double n = number(cell.axes, "samples");
    if (n == 1024) cell.status = CellStatus::missing;
    if (n == 512 && cell.seed > 3 && word(cell.axes, "model") == "B") cell.status = CellStatus::failed;
    if (n == 64 && cell.seed == 1) cell.outputs = {{"nmse", 0.0}};
  }
  const FindingResult result = verdict(results, claim());
  EXPECT_EQ(result.status, FindingStatus::holds);
  EXPECT_THAT(result.verdict, HasSubstr("Holds at all 4 numbers of training sets tested."));
  EXPECT_THAT(result.verdict, HasSubstr("Each factor comes from 3 to 6 seeds."));
  EXPECT_THAT(
      result.verdict,
      HasSubstr("At 1024 training sets fewer than two seeds have finished on both sides, too few to judge."));
  EXPECT_THAT(result.verdict, HasSubstr("1 pair is left out"));
}

TEST(Finding, SelectsByWhereAndAveragesOpenAxesWithinASeed) {
  const StudyResults results =
      planted({axis("samples", {64L, 128L}), axis("model", {"A"s, "B"s}), axis("degree", {1L, 2L})}, 4,
              [](const StudyValues& axes, std::uint64_t) -> StudyValues {
                const bool a = word(axes, "model") == "A";
                return {{"nmse", a ? 1.0 : number(axes, "degree") == 1 ? 2.0 : 8.0}};
              });
  FindingSpec spec = claim();
  const Comparison open = compare(results, spec);
  EXPECT_EQ(open.points.at(0).seeds, 4);  // not 8: two degrees of one seed are not independent
  EXPECT_NEAR(open.points.at(0).factor, 4, 1e-13);
  spec.where = {{"degree", 2L}};
  EXPECT_NEAR(compare(results, spec).points.at(0).factor, 8, 1e-13);
  spec.where = {{"degree", 5L}};
  EXPECT_TRUE(compare(results, spec).points.empty());
  EXPECT_EQ(verdict(results, spec).status, FindingStatus::undecided);
}

TEST(Finding, NumbersNameTheirAxis) {
  const StudyResults results = planted({axis("samples", {64L}), axis("degree", {1L, 3L})}, 3,
                                       [](const StudyValues& axes, std::uint64_t) -> StudyValues {
                                         return {{"nmse", number(axes, "degree")}};
                                       });
  const FindingSpec spec{"", "nmse", "samples", {{"degree", 1L}}, {{"degree", 3.0}}, {}, 0, 0};
  EXPECT_THAT(verdict(results, spec).verdict,
              HasSubstr("The error (nmse) of degree 3 is 3 times that of degree 1 (95% interval 3 to 3)"));
  EXPECT_THAT(verdict(results, spec).verdict, Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace headlens::report

// Curves over seeds and the sample sizes read off them, against numbers worked out by hand.
#include "report/summarise.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "headlens/error.hpp"
#include "report/draw/figures.hpp"
#include "report/planted.hpp"
#include "report/sample_size.hpp"

namespace headlens::report {
namespace {

using namespace std::string_literals;
using Values = std::vector<StudyValue>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

const CurveAxes kByModel{"samples", "nmse", "", "model", true};

TEST(Quantile, IsLinearBetweenOrderStatistics) {
  const std::vector<double> sorted{1, 2, 4, 8, 16};
  EXPECT_EQ(quantile(sorted, 0), 1);
  EXPECT_EQ(quantile(sorted, 0.5), 4);
  EXPECT_EQ(quantile(sorted, 1), 16);
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.1), 1.4);
  EXPECT_DOUBLE_EQ(quantile({1, 3}, 0.5), 2);
  EXPECT_EQ(quantile({7}, 0.9), 7);
  EXPECT_TRUE(std::isnan(quantile({}, 0.5)));
}

TEST(Summarise, DescribesEachPointOverSeeds) {
  const StudyResults results =
      planted({axis("samples", Values{128L, 64L}), axis("model", Values{"A"s, "B"s})}, 5,
              [](const StudyValues& axes, std::uint64_t seed) -> StudyValues {
                return {{"nmse", std::pow(2.0, static_cast<double>(seed)) * number(axes, "samples")}};
              });
  const Summary summary = summarise(results, kByModel);
  ASSERT_EQ(summary.curves.size(), 2);
  EXPECT_EQ(summary.series, (std::vector<std::string>{"A", "B"}));
  const Curve& curve = summary.curves.front();
  ASSERT_EQ(curve.points.size(), 2);
  EXPECT_EQ(curve.points[0].x, 64);  // by x, whatever the order of the grid
  const Point& point = curve.points[0];
  EXPECT_EQ(point.median, 64 * 8);
  EXPECT_DOUBLE_EQ(point.mean, 64 * (2 + 4 + 8 + 16 + 32) / 5.0);
  EXPECT_NEAR(point.geometric_mean, 64 * 8, 64 * 8 * 1e-14);
  EXPECT_DOUBLE_EQ(point.lower, 64 * 2.8);  // 2 + 0.4 (4 - 2)
  EXPECT_DOUBLE_EQ(point.upper, 64 * 25.6);
  EXPECT_EQ(summary.cells, 20);
  EXPECT_EQ(summary.seeds.size(), 5);
}

TEST(Summarise, CountsWhatItCannotUse) {
  StudyResults results = planted({axis("samples", Values{64L, 128L})}, 4,
                                 [](const StudyValues& axes, std::uint64_t seed) -> StudyValues {
                                   if (number(axes, "samples") == 128) return {};
                                   const double values[] = {0.5, 0.0, -1.0, kNan};
                                   return {{"nmse", values[seed - 1]}};
                                 });
  results.cells.back().status = CellStatus::failed;
  const Summary logarithmic = summarise(results, {"samples", "nmse", "", "", true});
  EXPECT_EQ(logarithmic.dropped, 3);
  EXPECT_EQ(logarithmic.failed, 1);
  EXPECT_EQ(logarithmic.missing, 3);
  EXPECT_EQ(logarithmic.curves.at(0).points.at(0).median, 0.5);
  EXPECT_TRUE(std::isnan(logarithmic.curves.at(0).points.at(1).median));
  const Summary linear = summarise(results, {"samples", "nmse", "", "", false});
  EXPECT_EQ(linear.dropped, 1);
  EXPECT_EQ(linear.curves.at(0).points.at(0).median, 0);
}

TEST(Summarise, NeverMixesCellsOfDifferentMeaning) {
  // Nobody mentions `dim`, so each of its values gets a panel.
  const StudyResults results = planted({axis("samples", Values{64L, 128L}), axis("dim", Values{8L, 16L}),
                                        axis("model", Values{"A"s, "B"s}), axis("keys", Values{4L})},
                                       2, [](const StudyValues& axes, std::uint64_t) -> StudyValues {
                                         return {{"nmse", number(axes, "dim")}};
                                       });
  const Summary summary = summarise(results, kByModel);
  EXPECT_EQ(summary.panels, (std::vector<std::string>{"dimension 8", "dimension 16"}));
  for (const Curve& curve : summary.curves)
    for (const Point& point : curve.points) EXPECT_EQ(point.smallest, point.largest);
}

TEST(Summarise, ReadsInfinityTruthAndWords) {
  EXPECT_EQ(as_number(StudyValue(true)), 1.0);
  EXPECT_TRUE(std::isinf(*as_number(StudyValue("inf"s))));
  EXPECT_FALSE(as_number(StudyValue("recovered"s)).has_value());
  EXPECT_TRUE(same(StudyValue(1L), StudyValue(1.0)));
  EXPECT_FALSE(same(StudyValue(1L), StudyValue("1"s)));
  StudyResults results = planted({axis("heads", Values{"inf"s, "words"s, 100L, 10L})}, 1,
                                 [](const StudyValues&, std::uint64_t) -> StudyValues {
                                   return {{"ok", true}};
                                 });
  const Summary summary = summarise(results, {"heads", "ok", "", "", false});
  std::vector<std::string> order;
  for (const Point& point : summary.curves.at(0).points) order.push_back(text(point.x_value));
  EXPECT_EQ(order, (std::vector<std::string>{"10", "100", "inf", "words"}));
  EXPECT_TRUE(summary.truth);
  EXPECT_THROW(summarise(results, {"head", "ok", "", "", false}), Error);
}

Curve curve(const std::vector<double>& x, const std::vector<std::vector<double>>& rows) {
  std::vector<StudyValue> values(x.begin(), x.end());
  const StudyResults results =
      planted({axis("samples", values)}, rows.front().size(),
              [&](const StudyValues& axes, std::uint64_t seed) -> StudyValues {
                const auto i = std::find(x.begin(), x.end(), number(axes, "samples")) - x.begin();
                return {{"nmse", rows.at(static_cast<std::size_t>(i)).at(seed - 1)}};
              });
  return summarise(results, {"samples", "nmse", "", "", false}).curves.front();
}

TEST(SampleSize, InterpolatesInLogarithms) {
  // error = 10 / n: 0.5 at 20, 0.1 at 100, 0.01 at 1000.
  const Curve power = curve({10, 40, 160, 640}, {{1}, {0.25}, {0.0625}, {0.015625}});
  const auto half = sample_size(power, 0.5, 0), tenth = sample_size(power, 0.1, 1),
             hundredth = sample_size(power, 0.01, 2);
  EXPECT_EQ(half->estimate.reach, Reach::between);
  EXPECT_NEAR(half->estimate.n, 20, 1e-12 * 20);
  EXPECT_NEAR(tenth->estimate.n, 100, 1e-12 * 100);
  EXPECT_EQ(hundredth->estimate, (Crossing{Reach::not_reached, 640}));
  EXPECT_EQ(text(*half), "20");  // one seed: no interval
  EXPECT_EQ(text(*hundredth), "not reached by 640");
  EXPECT_EQ(sample_size(power, 1.0, 0)->estimate, (Crossing{Reach::at_or_before, 10}));
  EXPECT_EQ(text(*sample_size(power, 2.0, 0)), "≤ 10");
  EXPECT_EQ(sample_size(power, 0.25, 0)->estimate, (Crossing{Reach::between, 40}));  // on a point
}

TEST(SampleSize, HasAnIntervalOverSeeds) {
  // Seed s has error 10 s / n, so it reaches 0.1 at 100 s; the median of five reaches it at 300.
  std::vector<double> x{50, 100, 200, 400, 800};
  std::vector<std::vector<double>> rows;
  for (const double n : x) rows.push_back({10 / n, 20 / n, 30 / n, 40 / n, 50 / n});
  const auto size = sample_size(curve(x, rows), 0.1, 0);
  ASSERT_TRUE(size->interval);
  EXPECT_NEAR(size->estimate.n, 300, 1e-9);
  EXPECT_LT(size->interval->first.n, 300);
  EXPECT_GT(size->interval->second.n, 300);
  // A median of five redrawn seeds is seed 1 with probability P(Bin(5, 1/5) >= 3) = 0.058 > 2.5%.
  EXPECT_NEAR(size->interval->first.n, 100, 1e-9);
  EXPECT_NEAR(size->interval->second.n, 500, 1e-9);
  const auto again = sample_size(curve(x, rows), 0.1, 0);
  EXPECT_EQ(again->interval->first, size->interval->first);
}

TEST(SampleSize, BoundsMayBeOpen) {
  const auto size =
      sample_size(curve({64, 128}, {{0.2, 0.2, 0.2, 0.2, 0.05}, {0.09, 0.09, 0.09, 0.5, 0.5}}), 0.1, 0);
  EXPECT_EQ(size->estimate.reach, Reach::between);
  EXPECT_EQ(size->interval->first, (Crossing{Reach::at_or_before, 64}));  // seed 5, as above
  EXPECT_EQ(size->interval->second, (Crossing{Reach::not_reached, 128}));
  EXPECT_NE(text(*size).find("(≤ 64 to > 128)"), std::string::npos) << text(*size);
}

TEST(SampleSize, TakesOddCurves) {
  EXPECT_EQ(sample_size(curve({64, 128}, {{kNan}, {kNan}}), 0.1, 0), std::nullopt);
  EXPECT_EQ(sample_size(curve({64}, {{0.2}}), 0.1, 0)->estimate, (Crossing{Reach::not_reached, 64}));
  EXPECT_EQ(sample_size(curve({64, 128}, {{0.2}, {0.0}}), 0.1, 0)->estimate, (Crossing{Reach::between, 128}));
  // A curve that rises again: the first crossing counts.
  EXPECT_NEAR(sample_size(curve({1, 4, 16, 64}, {{1}, {0.25}, {1}, {0.1}}), 0.5, 0)->estimate.n, 2, 1e-12);
}

}  // namespace
}  // namespace headlens::report

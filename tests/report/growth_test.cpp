// Fitted growth against planted growth, and what the page says of it.
#include "report/growth.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "headlens/report.hpp"
#include "io/files.hpp"
#include "report/planted.hpp"

namespace headlens {
namespace {

using namespace std::string_literals;
using testing::HasSubstr;

TEST(FitSlope, IsLeastSquares) {
  // By hand: means 1 and 2, slope 3/2; residuals 0.5, -1, 0.5, and t = 12.706 with one degree of freedom.
  const auto slope = report::fit_slope({0, 1, 2}, {1, 1, 4});
  ASSERT_TRUE(slope.has_value());
  EXPECT_NEAR(slope->value, 1.5, 1e-15);
  EXPECT_NEAR(slope->upper - slope->value, 12.7062 * std::sqrt(1.5 / 2), 1e-3);
  EXPECT_NEAR(slope->value - slope->lower, slope->upper - slope->value, 1e-12);
  EXPECT_FALSE(report::fit_slope({1, 1, 1}, {1, 2, 3}).has_value());
  EXPECT_FALSE(report::fit_slope({1, 2}, {1, 2}).has_value());
}

// slow: 3^m, the square of what stands beside it, and never solved; fast: constant, always solved.
StudyResults planted_growth() {
  StudyResults results = planted({axis("heads", {2L, 4L, 6L}), axis("method", {"slow"s, "fast"s})}, 3,
                                 [](const StudyValues& axes, std::uint64_t) -> StudyValues {
                                   const double m = number(axes, "heads");
                                   const bool slow = word(axes, "method") == "slow";
                                   return {{"seconds", slow ? std::pow(3.0, m) : 5.0},
                                           {"sq-dimension", std::pow(3.0, m / 2)},
                                           {"success", !slow}};
                                 });
  results.study.figures = {{.kind = FigureKind::growth,
                            .title = "Growth",
                            .x = "heads",
                            .y = "seconds",
                            .series = "method",
                            .beside = "sq-dimension",
                            .success = "success"}};
  return results;
}

TEST(Growth, FindsThePlantedOne) {
  const StudyResults results = planted_growth();
  const report::Summary summary = report::summarise(results, {"heads", "seconds", "", "method", true});
  const report::Growth growth = report::measure_growth(results, results.study.figures[0], summary);
  ASSERT_EQ(growth.curves.size(), 2U);
  const auto& slow = *growth.find(summary.curves[0]);
  EXPECT_EQ(slow.series, "slow");
  EXPECT_NEAR(slow.factor->value, 3, 1e-12);
  EXPECT_NEAR(slow.power->value, 2, 1e-12);
  EXPECT_NEAR(growth.find(summary.curves[1])->factor->value, 1, 1e-12);
  EXPECT_TRUE(growth.fails(summary.curves[0], summary.curves[0].points[0]));
  EXPECT_FALSE(growth.fails(summary.curves[1], summary.curves[1].points[0]));
  EXPECT_NEAR(*growth.beside_at(summary.curves[0], summary.curves[0].points[2]), 27, 1e-12);
}

class GrowthPage : public test::FolderTest {};

TEST_F(GrowthPage, ShowsTheFitAndTheShares) {
  const Report report = write_report({planted_growth()}, folder / "out", {});
  const std::string page = test::read_bytes(folder / "out/index.html");
  EXPECT_THAT(
      page,
      HasSubstr("<th scope=\"row\">slow</th><td>3<small>3 – 3</small></td><td>2<small>2 – 2</small></td>"));
  EXPECT_THAT(page, HasSubstr("<th scope=\"row\">fast</th><td>1<small>1 – 1</small></td>"));
  EXPECT_THAT(page, HasSubstr("A marker is open where"));
  EXPECT_THAT(
      page,
      HasSubstr("<th scope=\"row\">SQ dimension</th><td></td><td></td><td>3</td><td>9</td><td>27</td>"));
  EXPECT_THAT(page, HasSubstr("<td>729<small>0%</small></td>"));
  EXPECT_THAT(page, HasSubstr("<td>5<small>100%</small></td>"));
  const std::string csv = test::read_bytes(folder / "out/figures" / (report.figures.at(0).name + ".csv"));
  EXPECT_THAT(csv,
              HasSubstr(",success,beside,growth,growth_lower,growth_upper,power,power_lower,power_upper\n"));
}

}  // namespace
}  // namespace headlens

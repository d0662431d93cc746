// Predictions beside planted errors: the ratio must be the planted one.
#include "report/theory_overlay.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "headlens/theory.hpp"
#include "report/draw/figures.hpp"
#include "report/planted.hpp"
#include "report/tables.hpp"
#include "study/cell_options.hpp"

namespace headlens::report {
namespace {

using namespace std::string_literals;
using testing::HasSubstr;
using testing::Not;

Theory theory_of(Index samples, Index heads = kInfiniteHeads) {
  TheoryOptions options;
  options.task.dim = 6;
  options.task.min_keys = options.task.max_keys = 4;
  options.task.degree = 2;
  options.heads = heads;
  options.samples = {samples};
  return evaluate_theory(options, {});
}

double predicted(Index samples) { return *theory_of(samples).points[0].predicted_error; }

// Degree 2, d = 6, N = 4. The errors of seeds 1, 2, 3 are `factor` times the prediction, spread by `spread`.
StudyResults measured(double factor, double spread, const StudyValue& heads = "inf"s) {
  StudyResults results =
      planted({axis("samples", {64L, 256L}), axis("heads", {heads})}, 3,
              [&](const StudyValues& axes, std::uint64_t seed) -> StudyValues {
                const double shift = 1 + spread * (static_cast<double>(seed) - 2);
                return {{"nmse", factor * shift * predicted(static_cast<Index>(number(axes, "samples")))}};
              });
  for (StudyCell& cell : results.cells)
    cell.inputs = complete_inputs(StudyCommand::fit, {{"dim", 6L},
                                                      {"keys", 4L},
                                                      {"degree", 2L},
                                                      {"heads", heads},
                                                      {"samples", value(cell.axes, "samples")}});
  return results;
}

FigureData figure(const StudyResults& results) {
  return figure_data(results,
                     {FigureKind::learning_curves, "Errors", "", "samples", "nmse", "", "", "", true});
}

TEST(TheoryOverlay, HasThePlantedRatio) {
  const FigureData data = figure(measured(1.25, 0.1));
  ASSERT_EQ(data.theory.curves.size(), 1U);
  ASSERT_EQ(data.theory.curves[0].points.size(), 2U);
  for (const TheoryAt& at : data.theory.curves[0].points) {
    const Theory theory = theory_of(static_cast<Index>(at.x));
    EXPECT_DOUBLE_EQ(at.predicted, predicted(static_cast<Index>(at.x)));
    EXPECT_DOUBLE_EQ(at.bound, *theory.points[0].bound);
    EXPECT_DOUBLE_EQ(at.bound_as_nmse, *theory.points[0].square_bound / theory.variance);
    EXPECT_EQ(at.seeds, 3);
    EXPECT_NEAR(at.ratio, 1.25, 1e-12);
    // Values 0.9, 1, 1.1 times the mean: standard deviation 0.1, over sqrt(3).
    EXPECT_NEAR(at.standard_error, 0.125 * at.predicted / std::sqrt(3.0), 1e-12);
  }
  EXPECT_EQ(data.theory.silence, "");
}

TEST(TheoryOverlay, AgreesWithinTenPercentOrTwoStandardErrors) {
  const auto agrees = [](double factor, double spread) {
    return figure(measured(factor, spread)).theory.curves[0].points[0].agrees;
  };
  EXPECT_TRUE(agrees(1.09, 0));
  EXPECT_TRUE(agrees(0.91, 0));
  EXPECT_FALSE(agrees(1.11, 0));
  EXPECT_FALSE(agrees(0.89, 0));
  EXPECT_TRUE(agrees(1.2, 0.15));   // two standard errors are 1.2 * 0.15 * 1.155 = 0.208
  EXPECT_FALSE(agrees(1.2, 0.14));  // and here 0.194
}

TEST(TheoryOverlay, SaysWhatTheNumbersSay) {
  EXPECT_THAT(caption(figure(measured(1.05, 0))),
              HasSubstr("The measured error divided by the predicted one is 1.05 to 1.05 at 2 points, all "
                        "within 10% or 2 standard errors."));
  EXPECT_THAT(caption(figure(measured(1.5, 0))), HasSubstr("none of them within 10% or 2 standard errors; "
                                                           "farthest beyond: 1.5 at n = "));
  StudyResults results = measured(1, 0);
  for (StudyCell& cell : results.cells)
    if (number(cell.axes, "samples") == 256) cell.outputs = {{"nmse", 2 * predicted(256)}};
  EXPECT_THAT(caption(figure(results)), HasSubstr("1 to 2 at 2 points, 1 of them within 10% or 2 standard "
                                                  "errors; farthest beyond: 2 at n = 256."));
}

TEST(TheoryOverlay, KnowsFinitelyManyHeads) {
  const FigureData data = figure(measured(1, 0, 100L));
  ASSERT_EQ(data.theory.curves[0].points.size(), 2U);
  for (const TheoryAt& at : data.theory.curves[0].points)
    EXPECT_DOUBLE_EQ(at.predicted, *theory_of(static_cast<Index>(at.x), 100).points[0].predicted_error);
}

TEST(TheoryOverlay, IsSilentAboutFinitelyManyHeadsAroundTheIdentity) {
  StudyResults results = measured(1, 0, 1000L);
  for (StudyCell& cell : results.cells)
    for (auto& [name, value] : cell.inputs)
      if (name == "model") value = "brfa"s;
  const FigureData data = figure(results);
  EXPECT_TRUE(data.theory.curves[0].points.empty());
  EXPECT_THAT(caption(data), HasSubstr("Theory is silent about some of the curves (heads: theory knows"));
  EXPECT_THAT(caption(data), Not(HasSubstr("divided by the predicted one is")));
  EXPECT_THAT(csv(data), HasSubstr(",0,0,0,,,,,\n"));
}

TEST(TheoryOverlay, StandsInTheCsvAndTheTable) {
  const FigureData data = figure(measured(2, 0.1));
  EXPECT_THAT(csv(data), HasSubstr("dropped,predicted,ratio,standard_error,bound,bound_as_nmse\n"));
  EXPECT_THAT(theory_table(data), HasSubstr("<td>2<small>"));
  FigureSpec plain = data.spec;
  plain.theory = false;
  const FigureData without = figure_data(measured(2, 0.1), plain);
  EXPECT_TRUE(without.theory.empty());
  EXPECT_THAT(csv(without), HasSubstr("missing,dropped\n"));
}

TEST(TheoryOverlay, MeasuresAgainstTheTargetWithoutItsNoise) {
  StudyResults results = measured(1, 0);
  for (StudyCell& cell : results.cells)
    for (auto& [name, value] : cell.inputs)
      if (name == "noise") value = 0.01;
  TheoryOptions options;
  options.task.dim = 6;
  options.task.min_keys = options.task.max_keys = 4;
  options.task.degree = 2;
  options.task.noise = 0.01;
  options.samples = {256};
  const Theory noisy = evaluate_theory(options, {});
  const double mean_square = *noisy.points[0].predicted_error * noisy.variance - 1e-4;
  const TheoryAt at = figure(results).theory.curves[0].points[1];
  EXPECT_NEAR(at.predicted, mean_square / theory_of(256).variance, 1e-10);
  EXPECT_GT(at.predicted, predicted(256));
}

}  // namespace
}  // namespace headlens::report

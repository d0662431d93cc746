// What a study without figures is drawn as.
#include "report/draw/default_figure.hpp"

#include <gtest/gtest.h>

#include "report/planted.hpp"

namespace headlens::report {
namespace {

using namespace std::string_literals;

Study shown_study(std::vector<StudyAxis> axes, std::vector<std::string> record,
                  StudyCommand command = StudyCommand::fit) {
  Study study;
  study.command = command;
  study.axes = std::move(axes);
  study.record = std::move(record);
  study.record.insert(study.record.begin(), "outcome");
  return study;
}

TEST(DefaultFigure, IsTheErrorAgainstTrainingSetsWithALinePerModel) {
  const FigureSpec figure = default_figure(
      shown_study({axis("degree", {1L, 2L}), axis("model", {"RFA"s, "RFMLP"s}), axis("samples", {64L, 128L})},
                  {"chosen-ridge", "nmse"}));
  EXPECT_EQ(figure.kind, FigureKind::learning_curves);
  EXPECT_EQ(figure.x, "samples");
  EXPECT_EQ(figure.y, "nmse");
  EXPECT_EQ(figure.series, "model");
  EXPECT_EQ(figure.title, "Error (nmse) against training sets");
}

TEST(DefaultFigure, TakesTheFirstOtherOptionWithoutModels) {
  const FigureSpec figure = default_figure(shown_study(
      {axis("noise", {0.0, 0.1}), axis("degree", {1L, 2L}), axis("samples", {64L, 128L})}, {"mse"}));
  EXPECT_EQ(figure.y, "mse");
  EXPECT_EQ(figure.series, "noise");
}

TEST(DefaultFigure, TakesTheLongestAxisOfNumbersWithoutTrainingSets) {
  const FigureSpec figure = default_figure(shown_study(
      {axis("model", {"a"s, "b"s, "c"s, "d"s}), axis("degree", {1L, 2L}), axis("heads", {10L, 100L, "inf"s})},
      {"nmse"}));
  EXPECT_EQ(figure.kind, FigureKind::head_curves);
  EXPECT_EQ(figure.x, "heads");
  EXPECT_EQ(figure.series, "model");
}

TEST(DefaultFigure, IsAGridOfSharesForRecoveries) {
  const FigureSpec figure =
      default_figure(shown_study({axis("heads", {1L, 2L}), axis("examples-per-unknown", {1.0, 2.0})},
                                 {"worst-error", "success"}, StudyCommand::recover));
  EXPECT_EQ(figure.kind, FigureKind::phase_diagram);
  EXPECT_EQ(figure.x, "examples-per-unknown");
  EXPECT_EQ(figure.y, "heads");
  EXPECT_EQ(figure.quantity, "success");
}

TEST(DefaultFigure, IsAGridWhereNoAxisHasNumbers) {
  const FigureSpec figure = default_figure(shown_study({axis("model", {"RFA"s, "RFMLP"s})}, {"nmse"}));
  EXPECT_EQ(figure.kind, FigureKind::phase_diagram);
  EXPECT_EQ(figure.x, "model");
  EXPECT_EQ(figure.quantity, "nmse");
}

}  // namespace
}  // namespace headlens::report

#include "headlens/progress.hpp"

#include <gtest/gtest.h>

namespace headlens {
namespace {

TEST(Progress, KnownWorkShowsItsShareAndTheTimeLeft) {
  ProgressLines lines(0);
  EXPECT_EQ(lines.report({"features", 0, 100}, 0), "features 0%, 0 s");
  EXPECT_EQ(lines.report({"features", 25, 100}, 30),
            "features 25%, 30 s, about 1 min 30 s left of this phase");
  EXPECT_EQ(lines.report({"factorise", 0, 1}, 40), "factorise 0%, 40 s");
  // 10 s for a tenth of this phase; what came before does not count.
  EXPECT_EQ(lines.report({"factorise", 0.1, 1}, 50),
            "factorise 10%, 50 s, about 1 min 30 s left of this phase");
  EXPECT_EQ(lines.report({"factorise", 1, 1}, 7300), "factorise 100%, 2 h 1 min");
}

TEST(Progress, AnIterationShowsItsErrorAndGoalAndNoShare) {
  ProgressLines lines(0);
  EXPECT_EQ(lines.report({.phase = "varpro, 3 heads, step 12", .error = 1.2e-3, .goal = 1e-8}, 65),
            "varpro, 3 heads, step 12: error 1.2e-03, goal 1.0e-08, 1 min 5 s");
  EXPECT_EQ(lines.report({.phase = "varpro, 3 heads, step 13", .error = 2}, 66),
            "varpro, 3 heads, step 13: error 2.0e+00, 1 min 6 s");
  EXPECT_EQ(lines.report({.phase = "sculpt: carve"}, 67), "sculpt: carve, 1 min 7 s");
}

TEST(Progress, NumbersInAPhaseAreStepsOfThePhase) {
  ProgressLines lines(0);
  lines.report({"cells 0/10", 0, 10}, 0);
  EXPECT_EQ(lines.report({"cells 5/10", 5, 10}, 20), "cells 5/10 50%, 20 s, about 20 s left of this phase");
}

TEST(Progress, WorkThatBeginsAgainIsAPhaseOfItsOwn) {
  ProgressLines lines(0);
  lines.report({"features", 90, 100}, 90);
  EXPECT_EQ(lines.report({"features", 0, 100}, 100), "features 0%, 1 min 40 s");
  EXPECT_EQ(lines.report({"features", 50, 100}, 110),
            "features 50%, 1 min 50 s, about 10 s left of this phase");
}

TEST(Progress, ALineAMinute) {
  ProgressLines lines(60);
  int count = 0;
  for (int t = 0; t <= 3600; ++t) count += lines.report({"features", double(t), 3600}, t).has_value();
  EXPECT_EQ(count, 60);
  EXPECT_FALSE(ProgressLines(60).report({"features", 1, 2}, 59.9));
}

}  // namespace
}  // namespace headlens

// From values to pixels: logarithmic where that is possible, linear where a value is 0 or below.
#include "report/scale.hpp"

#include <gtest/gtest.h>

namespace headlens::report {
namespace {

TEST(Scale, EqualFactorsAreEqualSteps) {
  Scale scale({1, 10, 100}, 0.1);
  scale.set_pixels(0, 600);
  EXPECT_NEAR(scale(10) - scale(1), scale(100) - scale(10), 1e-9);
  EXPECT_NEAR(scale(10), 300, 1e-9);
  EXPECT_NEAR(scale(1), 600 * 0.1 / 1.2, 1e-9);
}

TEST(Scale, IsLinearWithAZero) {
  for (const double least : {0.0, -2.0}) {
    Scale scale({4, least, 1}, 0.1);
    scale.set_pixels(0, 600);
    EXPECT_NEAR(scale(least), 600 * 0.1 / 1.2, 1e-9);
    EXPECT_NEAR(scale(4), 600 * 1.1 / 1.2, 1e-9);
    EXPECT_NEAR(scale((4 + least) / 2), 300, 1e-9);
  }
  Scale alone({0}, 0.1);
  alone.set_pixels(0, 600);
  EXPECT_GT(alone(0), 0);
  EXPECT_LT(alone(0), 600);
}

}  // namespace
}  // namespace headlens::report

// log Gamma for many threads.
#include "base/log_gamma.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace headlens {
namespace {

TEST(LogGamma, IsTheOneOfTheStandardLibraryAndLeavesItsGlobalAlone) {
  const std::vector<double> points = {-1.5, 1e-3, 0.5, 1, 2, 3.75, 32, 1e3, 1e8};
  std::vector<double> found;
  signgam = 7;  // std::lgamma makes it 1 or -1, for all threads
  for (const double x : points) found.push_back(log_gamma(x));
  EXPECT_EQ(signgam, 7);
  for (std::size_t i = 0; i < points.size(); ++i) EXPECT_EQ(found[i], std::lgamma(points[i]));
}

}  // namespace
}  // namespace headlens

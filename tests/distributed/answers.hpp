// Answers of one process and of ranks, which should be alike.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "backend/backend.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::answers {

inline backend::Backend& processor() {
  static const Execution run{.threads = 1, .backend = BackendChoice::cpu};
  return backend::context_of(run).machine;
}

inline double distance(const Matrix<double>& a, const Matrix<double>& b) {
  Matrix<double> left = copy_of(a);
  add(-1.0, b, left);
  return std::sqrt(squared_norm(left) / std::max(squared_norm(b), 1e-300));
}

inline void expect_alike(const std::vector<Matrix<double>>& over_ranks,
                         const std::vector<Matrix<double>>& alone, double bound, const std::string& what) {
  ASSERT_EQ(over_ranks.size(), alone.size()) << what;
  for (std::size_t i = 0; i < alone.size(); ++i) {
    ASSERT_EQ(over_ranks[i].rows(), alone[i].rows()) << what << ", answer " << i;
    EXPECT_LT(distance(over_ranks[i], alone[i]), bound) << what << ", answer " << i;
  }
}

}  // namespace headlens::answers

// Digits that scores keep: few and large sets say as much of the spread of tokens as many small ones.
#include "fit/score_digits.hpp"

#include <gtest/gtest.h>

#include "reference/device_memory.hpp"
#include "reference/random_sets.hpp"

namespace headlens::training {
namespace {

Problem problem_of(const Sets& sets) {
  Problem problem{.sets = sets};
  problem.options.features.precision = Precision::f32;
  return problem;
}

Array shifted_queries(Index count, Index dim) {
  Array query = reference::normal_array<float>({count, dim}, 1);
  for (Index i = 0; i < query.size(); ++i) query.data<float>()[i] += 1e5F;
  return query;
}

// rho of queries is 1e5 and that of keys 1, of 7.2 digits of float 5 are lost, however large the sets are.
TEST(ScoreDigits, AreThoseOfSmallSetsWhereSetsAreLarge) {
  constexpr Index kMostNumbers = 1 << 12, kDim = 16;
  for (const Index count : {2, 3, 40})
    for (const Index keys : {8, 1 << 7, 1 << 12}) {
      const Array query = shifted_queries(count, kDim);
      const Array all = reference::normal_array<float>({count * keys, kDim}, 2);
      std::vector<std::int64_t> offsets{0, 1};  // one key, and then many
      while (std::ssize(offsets) < count) offsets.push_back(offsets.back() + keys);
      offsets.push_back(all.dim(0));
      const Array of_sets(DType::f32, {count, keys, kDim},
                          std::shared_ptr<void>(const_cast<void*>(all.raw()), [](void*) {}));
      for (const Sets& sets : {Sets::from_arrays(query, of_sets), Sets::from_ragged(query, all, offsets)}) {
        const double digits = score_digits(problem_of(sets), kMostNumbers);
        EXPECT_NEAR(digits, 2.2, 0.5) << count << " sets of " << keys << " keys";
        EXPECT_EQ(score_digits(problem_of(reference::on_device(sets)), kMostNumbers), digits);
      }
    }
}

}  // namespace
}  // namespace headlens::training

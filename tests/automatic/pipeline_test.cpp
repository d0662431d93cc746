// What a caller of the library may give that no file holds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "headlens/automatic.hpp"
#include "headlens/error.hpp"
#include "reference/random_sets.hpp"

namespace headlens {
namespace {

LabelledSets targets_of_size(double size) {
  LabelledSets data = reference::labelled(reference::ragged_sets<double>(12, 4, 2, 1), 2);
  for (double& y : data.targets.values) y = y > 0 ? size : -size;
  return data;
}

// Squares of 1e200 overflow: the model could not be read. Of 1e308 all errors were NaN, and no kernel was
// taken.
TEST(AutomaticFit, RefusesTargetsWhoseSquaresOverflow) {
  for (const double size : {1e200, 1e308}) {
    try {
      (void)fit_automatic(targets_of_size(size), 0, Execution{});
      ADD_FAILURE() << size << " was taken";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("expected finite values of at most 1e+150"));
    }
  }
}

TEST(AutomaticFit, TheLargestTargetsGiveAModelThatCanBeRead) {
  const AutomaticFit fit = fit_automatic(targets_of_size(1e150), 0, Execution{});
  EXPECT_EQ(automatic_model_from(tensors_of(fit.model), "model").members.size(), fit.model.members.size());
}

// Sets of one key in one dimension, with a class for every key that is given.
LabelledSets classes_of(const std::vector<double>& keys, const std::vector<double>& labels) {
  const auto n = static_cast<Index>(keys.size());
  const std::vector<double> zeros(keys.size());
  return {Sets::from_arrays(Array::from(zeros, {n, 1}), Array::from(keys, {n, 1, 1})),
          {labels, 1, true, {n}}};
}

// Normal scores are learned from a thousand sets at most, at even steps: of these no two differ.
TEST(AutomaticFit, LearnsWhereScoresAreAllTheSame) {
  std::vector<double> keys(1100);
  for (std::size_t i = 0; i < 100; ++i) keys[11 * i + 10] = 1;
  const AutomaticFit fit = fit_automatic(classes_of(keys, keys), 0, {.max_memory_bytes = 90 << 20});
  EXPECT_FALSE(fit.model.frame.by_scores());
  EXPECT_FALSE(fit.other_tokens_error);
  EXPECT_EQ(fit.model.loo_accuracy, 1.0);
}

}  // namespace
}  // namespace headlens

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

}  // namespace
}  // namespace headlens

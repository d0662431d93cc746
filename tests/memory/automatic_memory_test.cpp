// The memory that an automatic fit foresees, against what it allocates: never less. Many outputs make the
// predictions of the kernels that are compared the largest of all it holds.
#include <gtest/gtest.h>

#include "headlens/automatic.hpp"
#include "memory/live_bytes.hpp"
#include "reference/random_sets.hpp"

namespace headlens {
namespace {

constexpr double kMostForeseen = 3;  // so many times what is allocated may be foreseen

struct AutomaticCase {
  const char* name;
  Index sets, keys, outputs, classes;
  int threads = 1;
};

LabelledSets data_of(const AutomaticCase& c) {
  LabelledSets data = reference::labelled(reference::ragged_sets<double>(c.sets, c.keys, 2, 3), 4, c.outputs);
  data.targets.integer = c.classes > 0;
  for (Index i = 0; i < c.sets && c.classes > 0; ++i)
    data.targets.values[static_cast<std::size_t>(i)] = static_cast<double>(i % c.classes);
  return data;
}

class AutomaticMemory : public testing::TestWithParam<AutomaticCase> {};

TEST_P(AutomaticMemory, IsForeseen) {
  if (!reference::counts_allocations()) GTEST_SKIP() << "this build has a malloc of its own";
  const AutomaticCase& c = GetParam();
  const LabelledSets data = data_of(c);
  const Execution execution{.threads = c.threads, .max_memory_bytes = std::uint64_t{4} << 30};
  const std::size_t before = reference::live_bytes();
  reference::reset_peak();
  const AutomaticFit found = fit_automatic(data, 0, execution);
  const auto measured = static_cast<double>(reference::peak_bytes() - before);
  const auto foreseen = static_cast<double>(found.predicted_peak_bytes);
  EXPECT_LE(measured, foreseen);
  EXPECT_LE(foreseen, kMostForeseen * measured) << "for " << measured << " bytes";
  RecordProperty("ratio", std::to_string(foreseen / measured));
}

INSTANTIATE_TEST_SUITE_P(Fit, AutomaticMemory,
                         testing::Values(AutomaticCase{"one_output", 150, 6, 1, 0},
                                         AutomaticCase{"outputs", 60, 6, 120, 0},
                                         AutomaticCase{"outputs_of_two_threads", 60, 6, 120, 0, 2},
                                         AutomaticCase{"classes", 120, 6, 1, 60}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace headlens

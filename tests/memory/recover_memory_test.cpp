// The memory that a recovery foresees, against what it allocates: never less. A search takes what the labels
// ask for: exact ones need no equations in double and no more heads. The problems are large beside buffers of
// fixed size (of a batch, of a thread).
#include <gtest/gtest.h>

#include "headlens/hardness.hpp"
#include "headlens/recover.hpp"
#include "memory/live_bytes.hpp"

namespace headlens {
namespace {

constexpr double kMost = 3;           // so many times what is allocated may be foreseen
constexpr double kUnknownHeads = 30;  // where the search might have had to go up to sixteen heads

struct Case {
  const char* name;
  RecoveryStatus status;
  double most;
  TeacherOptions layer;
  ExampleOptions examples;
  RecoverOptions options;
};

class RecoverMemory : public testing::TestWithParam<Case> {};

void expect_foreseen(const Examples& examples, const RecoverOptions& options, std::size_t before,
                     RecoveryStatus status, double most) {
  const Execution execution{.threads = 1, .max_memory_bytes = std::uint64_t{16} << 30};
  reference::reset_peak();
  const Recovery found = recover(examples, options, execution);
  const auto measured = static_cast<double>(reference::peak_bytes() - before);
  const auto foreseen = static_cast<double>(found.certificate.predicted_peak_bytes);
  EXPECT_EQ(found.certificate.status, status) << found.certificate.reason;
  EXPECT_LE(measured, foreseen);
  EXPECT_LE(foreseen, most * measured) << "for " << measured << " bytes";
  testing::Test::RecordProperty("ratio", std::to_string(foreseen / measured));
}

TEST_P(RecoverMemory, IsForeseen) {
  if (!reference::counts_allocations()) GTEST_SKIP() << "this build has a malloc of its own";
  const Case& c = GetParam();
  const std::size_t before = reference::live_bytes();
  const Examples examples = draw_examples(draw_teacher(c.layer), c.examples, {});
  expect_foreseen(examples, c.options, before, c.status, c.most);
}

RecoverOptions heads(std::optional<Index> count, RecoverMethod method = RecoverMethod::varpro) {
  RecoverOptions out{.method = method, .heads = count};
  out.starts = 2;
  return out;
}
RecoverOptions in_factors(Index count, const char* rank) {
  RecoverOptions out = heads(count);
  out.rank = rank;
  return out;
}

// The layer is of the variant that the recovery is told.
Case of_variant(const char* name, Mask mask, bool bias, double noise, RecoverOptions options, Index dim,
                Index rank) {
  options.mask = mask;
  options.bias = bias;
  return {name,
          noise > 0 ? RecoveryStatus::approximate : RecoveryStatus::recovered,
          kMost,
          {.heads = *options.heads, .dim = dim, .rank = rank, .mask = mask, .bias = bias, .seed = 1},
          {.count = 1000, .tokens = 6, .noise = noise, .seed = 2},
          options};
}

Case best_fit() {
  Case out{"best_fit",
           RecoveryStatus::best_fit,
           kMost,
           {.dim = 6, .seed = 1},
           {.count = 2000, .noise = 0.01, .seed = 2},
           heads(2)};
  out.options.best_fit = true;
  return out;
}

constexpr auto kRecovered = RecoveryStatus::recovered, kApproximate = RecoveryStatus::approximate;

INSTANTIATE_TEST_SUITE_P(
    Recover, RecoverMemory,
    testing::Values(
        Case{"exact", kRecovered, kMost, {.seed = 1}, {.count = 3000, .tokens = 6, .seed = 2}, heads(2)},
        Case{"noisy",
             kApproximate,
             kMost,
             {.heads = 3, .dim = 6, .seed = 1},
             {.count = 1200, .noise = 0.01, .seed = 2},
             heads(3)},
        Case{"unknown_heads",
             kRecovered,
             kUnknownHeads,
             {.dim = 6, .seed = 1},
             {.count = 3000, .tokens = 6, .seed = 2},
             heads({})},
        best_fit(),
        Case{"sculpting",
             kRecovered,
             kMost,
             {.dim = 4, .seed = 1},
             {.count = 10000, .tokens = 2, .seed = 2},
             heads(2, RecoverMethod::sculpt)},
        Case{"factors",
             kRecovered,
             kMost,
             {.heads = 3, .dim = 24, .rank = 4, .seed = 1},
             {.count = 1000, .tokens = 8, .seed = 2},
             in_factors(3, "4")},
        of_variant("factors_noisy", Mask::none, false, 0.05, in_factors(1, "3"), 12, 3),
        of_variant("factors_with_biases", Mask::none, true, 0, in_factors(2, "4"), 24, 4),
        of_variant("causal", Mask::causal, false, 0, heads(2), 6, 0),
        of_variant("causal_with_biases_noisy", Mask::causal, true, 0.01, heads(2), 5, 0)),
    [](const auto& test) { return test.param.name; });

// Brute force keeps products of bits, linear algebra its equations.
TEST(ParityMemory, IsForeseen) {
  if (!reference::counts_allocations()) GTEST_SKIP() << "this build has a malloc of its own";
  for (const RecoverMethod method : {RecoverMethod::brute_force, RecoverMethod::linear_algebra}) {
    const std::size_t before = reference::live_bytes();
    const HardLayer hard = draw_hard_layer({.dim = 40, .size = 3, .seed = 5});
    const Examples examples =
        draw_hard_examples(hard, {.count = 20000, .tokens = 2, .seed = 6}, 0, Execution{});
    expect_foreseen(examples, heads(6, method), before, kRecovered, kMost);
  }
}

}  // namespace
}  // namespace headlens

// Recoveries run on a back end of the tests' own: the same pipeline, none of the processor's code.
#include <gtest/gtest.h>

#include "backend/backend.hpp"
#include "headlens/layer.hpp"
#include "headlens/recover.hpp"
#include "toy_layer_problem.hpp"

namespace headlens {
namespace {

class ToyMachine final : public backend::Backend {
 public:
  std::string_view name() const override { return "toy"; }
  std::unique_ptr<backend::LayerProblem> make_layer_problem(const backend::LayerExamples& examples,
                                                            Index heads, const backend::Context&) override {
    return std::make_unique<toy::LayerProblem>(examples, heads, calls);
  }
  toy::LayerCalls calls;
};

struct Case {
  Index heads, dim, tokens, count;
  double noise;
  RecoveryStatus status;
};

class RecoverOnToy : public testing::TestWithParam<Case> {};

// The layer is the teacher's to the accuracy that the certificate states.
TEST_P(RecoverOnToy, FindsTheLayer) {
  const Case c = GetParam();
  const AttentionLayer teacher = draw_teacher({.heads = c.heads, .dim = c.dim, .outputs = c.dim, .seed = 5});
  const Examples examples =
      draw_examples(teacher, {.count = c.count, .tokens = c.tokens, .noise = c.noise, .seed = 6}, {});
  ToyMachine machine;
  Recovery recovery;
  {
    const backend::Replacement here(machine);
    recovery = recover(examples, {.heads = c.heads}, {.threads = 1});
  }
  EXPECT_EQ(recovery.certificate.status, c.status) << name(recovery.certificate.status);
  EXPECT_EQ(recovery.certificate.backend, "toy");
  EXPECT_GT(machine.calls.problems, 0);
  EXPECT_GT(machine.calls.evaluations, machine.calls.problems);
  EXPECT_GT(machine.calls.solves, 0);
  ASSERT_TRUE(recovery.layer);
  const Comparison comparison = compare_layers(*recovery.layer, teacher);
  ASSERT_EQ(comparison.matches.size(), static_cast<std::size_t>(c.heads));
  for (const HeadMatch& match : comparison.matches) {
    const HeadReport& bar = recovery.certificate.per_head[static_cast<std::size_t>(match.a)];
    // A bar of an exact answer is a bound; that of a noisy one holds at 95%, twice that at far more
    // than 99.9%.
    const double allowed = c.noise == 0 ? 1 : 2;
    EXPECT_LE(match.theta_error, allowed * bar.theta_bar);
    EXPECT_LE(match.w_error, allowed * bar.w_bar);
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, RecoverOnToy,
                         testing::Values(Case{1, 3, 3, 40, 0, RecoveryStatus::recovered},
                                         Case{2, 3, 4, 60, 0, RecoveryStatus::recovered},
                                         Case{2, 3, 4, 60, 1e-3, RecoveryStatus::approximate}));

}  // namespace
}  // namespace headlens

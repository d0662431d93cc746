// Fits and predictions through the pipelines of the library on a back end of plain loops: what comes out is
// what the processor finds, to rounding, so nothing about the processor has leaked into the algorithms.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/toy_fit.hpp"
#include "headlens/error.hpp"
#include "headlens/fit.hpp"
#include "headlens/kernel.hpp"
#include "reference/random_sets.hpp"

namespace headlens {
namespace {

constexpr double kEps = std::numeric_limits<double>::epsilon();
constexpr Index kCount = 60;

LabelledSets regression(Index outputs = 2) {
  return reference::labelled(reference::ragged_sets<double>(kCount, 3, 2, 3), 4, outputs);
}

LabelledSets classes() {
  LabelledSets data = regression(1);
  for (double& y : data.targets.values) y = y > 0.1 ? 1 : 0;
  return data;
}

struct Both {
  Fit cpu, toy;
  Array cpu_scores, toy_scores;
  toy::FitCalls calls;
};

Both fit_on_both(const LabelledSets& data, const FitOptions& options) {
  const Execution execution{.threads = 1};
  Both out;
  out.cpu = fit(data, options, execution);
  out.cpu_scores = predict_scores(out.cpu.model, data.sets, execution);
  toy::FitMachine machine;
  const backend::Replacement here(machine);
  out.toy = fit(data, options, execution);
  out.toy_scores = predict_scores(out.toy.model, data.sets, execution);
  out.calls = machine.fit_calls;
  return out;
}

double largest(const Array& a) {
  double out = 0;
  for (Index i = 0; i < a.size(); ++i) out = std::max(out, std::abs(a.at(i)));
  return out;
}

double difference(const Array& a, const Array& b) {
  EXPECT_EQ(a.shape(), b.shape());
  double out = 0;
  for (Index i = 0; i < a.size(); ++i) out = std::max(out, std::abs(a.at(i) - b.at(i)));
  return out;
}

// trace(K): of the features, or of the kernel. Centring only makes it smaller.
double trace_of(const Fit& fit, const LabelledSets& data) {
  double sum = 0;
  if (fit.model.features.infinite()) {
    const Kernel kernel = attention_kernel(data.sets, {.features = fit.model.features}, {.threads = 1});
    for (Index i = 0; i < kCount; ++i) sum += kernel.values.at(i * kCount + i);
    return sum;
  }
  const Array phi = compute_features(fit.model, data.sets, {.threads = 1});
  for (Index i = 0; i < phi.size(); ++i) sum += phi.at(i) * phi.at(i);
  return sum;
}

FitOptions options_of(Index heads, std::optional<double> ridge) {
  FitOptions options;
  options.features.heads = heads;
  options.features.seed = 5;
  options.ridge = ridge;
  return options;
}

struct Squared {
  const char* name;
  Index heads;
  std::optional<double> ridge;
  Solver solver = Solver::automatic;
  bool intercept = true;
  ModelKind kind = ModelKind::rfa;
  std::optional<Index> centres = {};
};

class SquaredLoss : public testing::TestWithParam<Squared> {};

// (K + shift) alpha = y with K moved by c n eps |K| moves the fit by c n eps |K| / shift, relatively; kernels
// of the processor are good to some 1e-12 more. Conjugate gradients stop at 1e-11, which counts |K| / shift
// times at most.
TEST_P(SquaredLoss, IsThatOfTheProcessor) {
  const Squared given = GetParam();
  FitOptions options = options_of(given.heads, given.ridge);
  options.solver = given.solver;
  options.intercept = given.intercept;
  options.features.kind = given.kind;
  options.centres = given.centres;
  LabelledSets data = regression();
  if (given.kind == ModelKind::mlp)
    data = reference::labelled(reference::equal_sets<double>(kCount, 3, 2, 3), 4, 2);
  const Both both = fit_on_both(data, options);
  EXPECT_EQ(both.toy.report.method, both.cpu.report.method);
  EXPECT_EQ(both.toy.report.status, FitStatus::solved);
  EXPECT_EQ(both.toy.report.backend, "toy");
  EXPECT_EQ(both.cpu.model.report.at("backend"), "cpu");
  EXPECT_NEAR(both.toy.report.ridge / both.cpu.report.ridge, 1, 1e-9);
  const double shift = both.cpu.report.ridge * double(kCount);
  const double condition = 1 + trace_of(both.cpu, data) / shift;
  const bool iterative = both.cpu.report.solver == Solver::iterative;
  const double unit = iterative ? 1e-11 : options.features.infinite() ? 1e-12 : 10 * kCount * kEps;
  EXPECT_LE(difference(both.toy_scores, both.cpu_scores), unit * condition * largest(both.cpu_scores));
  ASSERT_EQ(both.toy.report.trials.size(), both.cpu.report.trials.size());
  for (std::size_t k = 0; !iterative && k < both.toy.report.trials.size(); ++k) {
    const RidgeTrial a = both.toy.report.trials[k], b = both.cpu.report.trials[k];
    const double moved = 1e-12 * (1 + condition * shift / (b.ridge * double(kCount)));
    EXPECT_NEAR(a.error / b.error, 1, moved) << k;
  }
  EXPECT_GT(both.calls.designs + both.calls.kernels, 0);
  EXPECT_GT(both.calls.factors + both.calls.paths + both.calls.products, 0);
  EXPECT_EQ(both.calls.scorers, 1);
  EXPECT_GT(both.calls.scores, 1);
}

INSTANTIATE_TEST_SUITE_P(
    Toy, SquaredLoss,
    testing::Values(Squared{"dual_given", 24, 1e-3}, Squared{"primal_given", 5, 1e-3},
                    Squared{"dual_path", 24, {}}, Squared{"primal_path", 5, {}},
                    Squared{"without_intercept", 24, {}, Solver::automatic, false},
                    Squared{"dual_iterative", 24, 1e-2, Solver::iterative},
                    Squared{"primal_iterative", 5, 1e-2, Solver::iterative},
                    Squared{"held_out", 5, {}, Solver::iterative},
                    Squared{"mlp", 60, 1e-3, Solver::automatic, true, ModelKind::mlp},
                    Squared{"kernel_given", kInfiniteHeads, 1e-3}, Squared{"kernel_path", kInfiniteHeads, {}},
                    Squared{"centres_path", kInfiniteHeads, {}, Solver::automatic, true, ModelKind::brfa, 12},
                    Squared{"centres_iterative", kInfiniteHeads, 1e-2, Solver::automatic, true,
                            ModelKind::brfa, 12}),
    [](const auto& test) { return test.param.name; });

struct Convex {
  const char* name;
  Loss loss;
  Index heads;
  std::optional<double> ridge;
};

class OtherLosses : public testing::TestWithParam<Convex> {};

// P is 2 ridge strongly convex in V, so a certified gap g puts V within sqrt(g scale / ridge) of the minimum,
// and scores without an intercept within |phi| times that. scale <= P at V = 0 (loss.hpp: log 2, 1, ..).
TEST_P(OtherLosses, AreThoseOfTheProcessor) {
  const Convex given = GetParam();
  FitOptions options = options_of(given.heads, given.ridge);
  options.loss = given.loss;
  options.intercept = false;
  const LabelledSets data = given.loss == Loss::huber ? regression(1) : classes();
  const Both both = fit_on_both(data, options);
  EXPECT_EQ(both.toy.report.method, both.cpu.report.method);
  EXPECT_EQ(both.toy.report.status, FitStatus::solved);
  EXPECT_NEAR(both.toy.report.ridge / both.cpu.report.ridge, 1, 1e-9);
  double scale = 1;
  for (const double y : data.targets.values) scale = std::max(scale, std::abs(y));
  const double gap = std::sqrt(both.toy.report.residual * scale / both.toy.report.ridge) +
                     std::sqrt(both.cpu.report.residual * scale / both.cpu.report.ridge);
  const double row = std::sqrt(trace_of(both.cpu, data));
  EXPECT_LE(difference(both.toy_scores, both.cpu_scores), row * gap + 1e-9);
  EXPECT_GT(both.calls.products, 2);
}

INSTANTIATE_TEST_SUITE_P(Toy, OtherLosses,
                         testing::Values(Convex{"logistic", Loss::logistic, 24, 1e-3},
                                         Convex{"hinge", Loss::hinge, 24, 1e-2},
                                         Convex{"huber_on_features", Loss::huber, 5, 1e-2},
                                         Convex{"logistic_folds", Loss::logistic, 24, {}}),
                         [](const auto& test) { return test.param.name; });

// Both losses are within their certified gaps of one minimum; scale is at most the loss at V = 0.
TEST(NormBall, IsThatOfTheProcessor) {
  FitOptions options = options_of(12, {});
  options.norm_ball = NormBall{1, 0.5};
  const LabelledSets data = regression(1);
  const Both both = fit_on_both(data, options);
  EXPECT_EQ(both.toy.report.status, FitStatus::solved);
  double mean = 0, variance = 0;
  for (const double y : data.targets.values) mean += y / double(kCount);
  for (const double y : data.targets.values) variance += (y - mean) * (y - mean) / double(kCount);
  EXPECT_NEAR(both.toy.report.train_loss, both.cpu.report.train_loss,
              (both.toy.report.residual + both.cpu.report.residual) * variance);
  for (const Fit* fit : {&both.toy, &both.cpu}) {  // in the order of the file, or the norms would not fit
    double sum = 0, squares = 0;
    for (Index m = 0; m < 12; ++m) {
      double norm = 0;
      for (Index j = 0; j < 3; ++j) norm += std::pow(fit->model.values.at(m * 3 + j), 2);
      sum += std::sqrt(norm), squares += norm;
    }
    EXPECT_LE(sum, 1 + 1e-12);
    EXPECT_LE(squares, 0.5 + 1e-12);
  }
}

// A back end that does not have something says so.
TEST(Toy, HasNoKernels) {
  toy::FitMachine machine;
  const backend::Replacement here(machine);
  const LabelledSets data = regression(1);
  try {
    (void)attention_kernel(data.sets, {}, {.threads = 1});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "backend: toy has no kernels: ask for cpu");
  }
}

}  // namespace
}  // namespace headlens

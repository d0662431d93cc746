// Fits with infinitely many heads: against dense kernel ridge regression, against finite heads, and centres.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "headlens/error.hpp"
#include "headlens/fit.hpp"
#include "headlens/kernel.hpp"
#include "reference/dense.hpp"
#include "reference/kernel.hpp"
#include "reference/random_sets.hpp"

namespace headlens {
namespace {

using namespace reference;
using testing::HasSubstr;

FitOptions infinite(std::optional<double> ridge, ModelKind kind = ModelKind::rfa) {
  FitOptions options;
  options.features.kind = kind;
  options.features.heads = kInfiniteHeads;
  options.ridge = ridge;
  return options;
}

PlainKernel plain_kernel(const FitOptions& options, Index keys) {
  const ModelKind kind = options.features.kind;
  return {.kind = kind,
          .bias = kind == ModelKind::brfa ? 1.0 : 0.0,
          .scale = kind == ModelKind::mlp ? 1 / std::sqrt(2.0 * (static_cast<double>(keys) + 1)) : 0.5,
          .score = options.features.score,
          .positions = options.features.positions};
}

Dense kernel_matrix(const Sets& a, const Sets& b, const PlainKernel& plain) {
  Dense k(a.count(), b.count());
  for (Index i = 0; i < a.count(); ++i)
    for (Index j = 0; j < b.count(); ++j)
      k(i, j) = kernel_entry(plain_set(a, i, plain.positions), plain_set(b, j, plain.positions), plain);
  return k;
}

// Kernel ridge regression with an intercept, from the stationarity of (1/n) |K a + b - y|^2 + ridge a^T K a:
// K a + n ridge a + b = y and 1^T a = 0. Returns predictions.
Dense dense_predictions(const Dense& k, const Dense& y, const Dense& cross, double ridge, bool intercept) {
  const Index n = k.rows;
  Dense system(n + 1, n + 1), rhs(n + 1, y.cols);
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < n; ++j) system(i, j) = k(i, j) + (i == j ? ridge * static_cast<double>(n) : 0.0);
    system(i, n) = system(n, i) = intercept ? 1 : 0;
    for (Index c = 0; c < y.cols; ++c) rhs(i, c) = y(i, c);
  }
  if (!intercept) system(n, n) = 1;
  const Dense a = solve(system, rhs);
  Dense out(cross.rows, y.cols);
  for (Index i = 0; i < cross.rows; ++i)
    for (Index c = 0; c < y.cols; ++c) {
      out(i, c) = intercept ? a(n, c) : 0.0;
      for (Index j = 0; j < n; ++j) out(i, c) += cross(i, j) * a(j, c);
    }
  return out;
}

Dense targets_of(const LabelledSets& data) {
  Dense y(data.sets.count(), data.targets.outputs);
  y.values = data.targets.values;
  return y;
}

double worst_difference(const Array& found, const Dense& want) {
  double worst = 0, scale = 0;
  for (Index i = 0; i < found.size(); ++i) {
    worst = std::max(worst, std::abs(found.at(i) - want.values[static_cast<std::size_t>(i)]));
    scale = std::max(scale, std::abs(want.values[static_cast<std::size_t>(i)]));
  }
  return worst / scale;
}

double worst_difference(const Array& a, const Array& b) {
  Dense want(b.size(), 1);
  want.values = b.to_doubles();
  return worst_difference(a, want);
}

TEST(InfiniteHeads, IsKernelRidgeRegression) {
  for (const ModelKind kind : {ModelKind::rfa, ModelKind::brfa, ModelKind::mlp})
    for (const bool intercept : {true, false}) {
      const bool mlp = kind == ModelKind::mlp;
      const LabelledSets data =
          labelled(mlp ? equal_sets<double>(60, 3, 3, 1) : ragged_sets<double>(60, 5, 3, 1), 2, 2);
      const Sets fresh = mlp ? equal_sets<double>(20, 3, 3, 3) : ragged_sets<double>(20, 8, 3, 3);
      FitOptions options = infinite(1e-3, kind);
      options.intercept = intercept;
      const PlainKernel plain = plain_kernel(options, 3);
      const Dense want = dense_predictions(kernel_matrix(data.sets, data.sets, plain), targets_of(data),
                                           kernel_matrix(fresh, data.sets, plain), 1e-3, intercept);
      const Fit exact = fit(data, options, {});
      EXPECT_EQ(exact.report.status, FitStatus::solved);
      EXPECT_LT(exact.report.residual, 1e-12);
      // The condition number of K + n ridge is below 1e5 here.
      EXPECT_LT(worst_difference(predict_scores(exact.model, fresh, {}), want), 1e-9)
          << name(kind) << intercept;
      // All sets as centres are the same fit, by either solver.
      for (const Solver solver : {Solver::primal, Solver::iterative}) {
        options.centres = 60;
        options.solver = solver;
        const Fit centres = fit(data, options, {});
        EXPECT_EQ(centres.report.status, FitStatus::solved);
        EXPECT_LT(worst_difference(predict_scores(centres.model, fresh, {}), want), 1e-8) << name(solver);
      }
      options.solver = Solver::automatic;
      options.centres.reset();
    }
}

TEST(InfiniteHeads, ScoresPositionsAndSequences) {
  const LabelledSets ragged = labelled(ragged_sets<double>(40, 5, 3, 1), 2);
  const LabelledSets sequence = labelled(Sets::from_sequence(normal_array<double>({12, 4, 3}, 5)), 2);
  for (const Score score : {Score::relu, Score::step, Score::exp})
    for (const Positions positions : {Positions::none, Positions::sinusoidal})
      for (const LabelledSets* data : {&ragged, &sequence})
        for (const std::optional<Index> centres : {std::optional<Index>(), std::optional<Index>(17)}) {
          FitOptions options = infinite(1e-2, ModelKind::brfa);
          options.features.score = score;
          options.features.positions = positions;
          options.features.weight_scale = 0.2;
          options.features.bias_scale = 0.3;
          options.centres = centres;
          const Fit result = fit(*data, options, {});
          ASSERT_EQ(result.report.status, FitStatus::solved);
          if (centres) continue;
          PlainKernel plain = plain_kernel(options, 0);
          plain.bias = 0.3, plain.scale = 0.2;
          const Dense k = kernel_matrix(data->sets, data->sets, plain);
          EXPECT_LT(worst_difference(predict_scores(result.model, data->sets, {}),
                                     dense_predictions(k, targets_of(*data), k, 1e-2, true)),
                    1e-9)
              << name(score) << " " << name(positions);
        }
}

// With the penalty M ridge, M heads tend to infinitely many: predictions differ by O(1 / sqrt(M)).
TEST(InfiniteHeads, AreTheLimitOfMany) {
  const LabelledSets data = labelled(ragged_sets<double>(50, 4, 2, 1), 2);
  const Sets fresh = ragged_sets<double>(40, 4, 2, 5);
  for (const ModelKind kind : {ModelKind::rfa, ModelKind::brfa}) {
    const Array limit = predict_scores(fit(data, infinite(0.02, kind), {}).model, fresh, {});
    std::vector<double> distance;
    for (const Index heads : {200, 20000}) {
      FitOptions options = infinite(0.02 * static_cast<double>(heads), kind);
      options.features.heads = heads;
      options.features.seed = 3;
      distance.push_back(worst_difference(predict_scores(fit(data, options, {}).model, fresh, {}), limit));
    }
    EXPECT_LT(distance[1], 0.02);
    EXPECT_LT(distance[1], distance[0] / 3);  // 10 expected
  }
}

TEST(InfiniteHeads, LeaveOneOutIsExact) {
  const LabelledSets data = labelled(ragged_sets<double>(24, 4, 2, 5), 6, 2);
  for (const bool intercept : {true, false})
    for (const std::optional<Index> centres : {std::optional<Index>(), std::optional<Index>(24)}) {
      FitOptions options = infinite(std::nullopt);
      options.intercept = intercept;
      options.centres = centres;
      const Fit result = fit(data, options, {});
      EXPECT_EQ(result.report.ridge_rule, "leave-one-out");
      const Dense k = kernel_matrix(data.sets, data.sets, plain_kernel(options, 0)), y = targets_of(data);
      int checked = 0;
      for (const RidgeTrial& trial : result.report.trials) {
        if (trial.ridge < 1e-6 || trial.ridge > 1) continue;
        double squares = 0;
        for (Index out = 0; out < 24; ++out) {
          Dense inner(23, 23), left(1, 23), rest(23, 2);
          for (Index i = 0, row = 0; i < 24; ++i) {
            if (i == out) continue;
            left(0, row) = k(out, i);
            for (Index c = 0; c < 2; ++c) rest(row, c) = y(i, c);
            for (Index j = 0, column = 0; j < 24; ++j)
              if (j != out) inner(row, column++) = k(i, j);
            ++row;
          }
          // The total penalty n ridge stays.
          const Dense f = dense_predictions(inner, rest, left, trial.ridge * 24 / 23, intercept);
          for (Index c = 0; c < 2; ++c) squares += std::pow(f(0, c) - y(out, c), 2);
        }
        EXPECT_NEAR(trial.error / (squares / 48), 1, 1e-6) << "ridge " << trial.ridge;
        ++checked;
      }
      EXPECT_GT(checked, 8);
    }
}

TEST(InfiniteHeads, TakesCentresWhenTheKernelMatrixDoesNotFit) {
  const LabelledSets data = labelled(equal_sets<double>(900, 2, 2, 3), 4);
  std::string note;
  for (const auto ridge : {std::optional<double>(), std::optional<double>(1e-3)}) {
    const Fit exact = fit(data, infinite(ridge), {});
    Execution small{.max_memory_bytes = 12ULL << 20};
    small.log = [&](std::string_view text) { note = text; };
    const Fit centres = fit(data, infinite(ridge), small);
    EXPECT_THAT(note, HasSubstr("centres"));
    EXPECT_THAT(centres.report.method, HasSubstr("Nystrom"));
    EXPECT_LE(centres.report.predicted_peak_bytes, 12ULL << 20);
    EXPECT_EQ(centres.report.status, FitStatus::solved);
    EXPECT_LT(centres.model.values.dim(0), 900);
    EXPECT_LT(centres.report.train_loss, 1.5 * exact.report.train_loss + 1e-3);
  }
  FitOptions dual = infinite(1e-3);
  dual.solver = Solver::dual;
  EXPECT_THROW((void)fit(data, dual, {.max_memory_bytes = 12ULL << 20}), Error);
  EXPECT_THROW((void)fit(data, infinite(1e-3), {.max_memory_bytes = 1ULL << 17}), Error);
}

TEST(InfiniteHeads, DoesNotDependOnThreadsBlocksOrCaching) {
  for (const Solver solver : {Solver::dual, Solver::primal, Solver::iterative}) {
    const LabelledSets data = labelled(equal_sets<double>(solver == Solver::dual ? 500 : 2200, 2, 3, 3), 4);
    FitOptions options = infinite(1e-3, ModelKind::brfa);
    options.solver = solver;
    if (solver != Solver::dual) options.centres = 150;
    const Fit one = fit(data, options, {.threads = 1});
    options.block_sets = 4096;
    const Fit three = fit(data, options, {.threads = 3});
    EXPECT_EQ(one.model.values.to_doubles(), three.model.values.to_doubles()) << name(solver);
    if (solver == Solver::dual) continue;
    options.block_sets = 0;
    const Fit small =
        fit(data, options, {.max_memory_bytes = 4ULL << 20});  // features of 2.5 MiB are not kept
    EXPECT_EQ(one.model.values.to_doubles(), small.model.values.to_doubles()) << name(solver);
  }
}

TEST(InfiniteHeads, OtherLossesTakeCentres) {
  LabelledSets data = labelled(equal_sets<double>(80, 2, 2, 3), 4);
  FitOptions options = infinite(1e-3);
  options.loss = Loss::huber;
  options.huber_delta = 1e6;  // then r^2 / 2: half the squared loss, so twice the penalty
  const Fit huber = fit(data, options, {});
  EXPECT_EQ(huber.report.status, FitStatus::solved);
  const Fit squared = fit(data, infinite(2e-3), {});
  EXPECT_LT(worst_difference(predict_scores(huber.model, data.sets, {}),
                             predict_scores(squared.model, data.sets, {})),
            1e-3);  // the gap is 1e-8 of the objective, its root of the predictions
  for (double& y : data.targets.values) y = y > 0 ? 1 : 0;
  for (const Loss loss : {Loss::logistic, Loss::hinge}) {
    FitOptions classifier = infinite(1e-3);
    classifier.loss = loss;
    const Fit result = fit(data, classifier, {});
    EXPECT_EQ(result.report.status, FitStatus::solved);
    EXPECT_GT(*evaluate(result.model, data, {}).accuracy, 0.8);
  }
}

TEST(InfiniteHeads, SmallAndAwkwardProblems) {
  for (const Index n : {1, 2, 3})
    for (const auto ridge : {std::optional<double>(), std::optional<double>(0.0), std::optional<double>(0.1)})
      for (const bool intercept : {true, false})
        for (const double scale : {0.0, 0.5}) {
          FitOptions options = infinite(ridge);
          options.intercept = intercept;
          options.features.weight_scale = scale;
          for (const std::optional<Index> centres : {std::optional<Index>(), std::optional<Index>(1)}) {
            options.centres = centres;
            const LabelledSets data = labelled(equal_sets<double>(n, 1, 1, 3), 4);
            const Fit result = fit(data, options, {});
            EXPECT_EQ(result.report.status, FitStatus::solved)
                << n << " " << ridge.value_or(-1) << " " << scale;
            for (const double f : predict(result.model, data.sets, {}).to_doubles())
              EXPECT_TRUE(std::isfinite(f));
          }
        }
  LabelledSets constant = labelled(equal_sets<double>(50, 2, 3, 3), 4);
  std::fill(constant.targets.values.begin(), constant.targets.values.end(), 0.1);
  for (const double f :
       predict(fit(constant, infinite(std::nullopt), {}).model, constant.sets, {}).to_doubles())
    EXPECT_EQ(f, 0.1);
}

TEST(InfiniteHeads, RefusesWhatHasNoMeaning) {
  const LabelledSets data = labelled(equal_sets<double>(20, 2, 3, 3), 4);
  const auto error = [&](auto&& change) -> std::string {
    FitOptions options = infinite(1e-3);
    change(options);
    try {
      (void)fit(data, options, {});
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_THAT(error([](FitOptions& o) { o.features.score = Score::softmax; }), HasSubstr("softmax"));
  EXPECT_THAT(error([](FitOptions& o) { o.norm_ball = NormBall{1, 1}; }), HasSubstr("norm-ball"));
  EXPECT_THAT(error([](FitOptions& o) { o.centres = 21; }), HasSubstr("only 20 sets"));
  EXPECT_THAT(error([](FitOptions& o) { o.centres = 0; }), HasSubstr("1 or more"));
  EXPECT_THAT(error([](FitOptions& o) { o.centres = 5, o.solver = Solver::dual; }), HasSubstr("dual"));
  EXPECT_THAT(error([](FitOptions& o) { o.centres = 5, o.features.heads = 10; }), HasSubstr("(heads inf)"));
}

}  // namespace
}  // namespace headlens

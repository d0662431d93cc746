// The penalty path of few digits against the exact one.
#include "fit/ridge/refined.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/random.hpp"
#include "features/heads.hpp"
#include "fit/penalties.hpp"
#include "reference/backends.hpp"
#include "reference/random_sets.hpp"

namespace headlens::training {
namespace {

using namespace reference;

constexpr double kEpsFloat = std::numeric_limits<float>::epsilon();

struct Case {
  Execution execution;
  LabelledSets data;
  FitOptions options;
  Array heads;
  Matrix<double> y;
  bool dual;

  Case(Execution run, Index n, Index count, bool intercept, Index outputs = 1)
      : execution(std::move(run)),
        data(labelled(equal_sets<double>(n, 3, 3, 3), 4, outputs)),
        dual(n <= 4 * count) {
    options.features.heads = count;
    options.intercept = intercept;
    options.features = with_default_scales(options.features, 3);
    heads = draw_heads(options.features, 3, 3, 1);
    y = Matrix<double>(n, outputs);
    for (Index c = 0; c < outputs; ++c) {
      double mean = 0;
      for (Index i = 0; i < n; ++i) mean += data.targets.values[std::size_t(i * outputs + c)] / double(n);
      for (Index i = 0; i < n; ++i)
        y(i, c) = data.targets.values[std::size_t(i * outputs + c)] - (intercept ? mean : 0);
    }
  }
  backend::Side side() const { return dual ? backend::Side::dual : backend::Side::primal; }
  std::unique_ptr<backend::Design> design() const {
    const backend::Context context = backend::context_of(execution);
    return context.machine.make_design({data.sets, options.features, options.intercept}, heads, context);
  }
  std::vector<double> ridges(double trace) const {
    return ridge_grid(trace / double(y.rows()), y.rows(), options.features.precision);
  }
  std::unique_ptr<backend::Gram> single_gram(backend::Design& of) const {
    return of.gram({side(), Precision::f32, y, draw_examples(y.rows(), kLeftOut, options.features.seed),
                    options.intercept});
  }
  std::optional<FloatChoice> single() const {
    const auto matrix = design();
    const auto gram = single_gram(*matrix);
    const double trace = gram->trace();
    const auto path = gram->shift_path();
    if (!path) return std::nullopt;
    return choose_in_float(*path, ridges(trace), y.rows());
  }
  // Errors at all penalties that the precision resolves.
  std::vector<RidgeTrial> all_trials(backend::Gram& gram) const {
    const std::vector<double> grid = ridges(gram.trace());
    std::vector<double> shifts;
    for (const double ridge : grid) shifts.push_back(ridge * double(y.rows()));
    std::vector<RidgeTrial> out;
    for (const double error : gram.shift_path()->leave_one_out(shifts))
      out.push_back({grid[out.size()], error});
    return out;
  }
  std::vector<RidgeTrial> exact() const {
    const auto matrix = design();
    return all_trials(*matrix->gram({.side = side(), .targets = y, .intercept = options.intercept}));
  }
  std::vector<RidgeTrial> single_trials() const {
    const auto matrix = design();
    return all_trials(*single_gram(*matrix));
  }
};

using Refined = OnEveryBackend;

// All examples are left out (n <= kLeftOut), so float rounding is the only difference. It moves A by c n eps
// |A| at most and A^-1, of which the error is a quotient of squares, by four times that over the shift.
TEST_P(Refined, AgreesWithTheExactPath) {
  for (const bool intercept : {true, false})
    for (const auto& [n, heads] : {std::pair<Index, Index>{200, 100}, {400, 30}}) {
      const Case given(execution(), n, heads, intercept, 2);
      const auto single = given.single();
      ASSERT_TRUE(single);
      const std::vector<RidgeTrial> exact = given.exact(), trials = given.single_trials();
      EXPECT_NEAR(single->ridge / exact[std::size_t(best_trial(exact))].ridge, 1, 1e-5);
      // |A| is at most its trace, n mean_diagonal: the first shift is 1e3 n mean_diagonal.
      const double norm = exact.front().ridge * double(n) * 1e-3;
      int close = 0;
      for (std::size_t k = 0; k < trials.size(); ++k) {
        const double moved = kEpsFloat * norm / (exact[k].ridge * double(n));
        EXPECT_NEAR(trials[k].error / exact[k].error, 1, 1e-5 + 40 * moved) << k;
        close += 40 * moved < 1e-2;
      }
      EXPECT_GE(close, 12);
    }
}

// 512 of 900 examples, fixed seeds: over 12 draws the mean of the estimate is the exact error, to four
// standard errors of that mean (exceeded by chance with probability 0.002) and the bias of a quotient, below
// 1%.
TEST_P(Refined, EstimatesFromSomeExamples) {
  for (const Index heads : {300, 150}) {  // dual, primal
    Case given(execution(), 900, heads, true);
    const std::vector<RidgeTrial> exact = given.exact();
    std::vector<std::vector<double>> ratios(exact.size());
    constexpr int kDraws = 12;
    for (int draw = 0; draw < kDraws; ++draw) {
      given.options.features.seed = std::uint64_t(draw);
      const std::vector<RidgeTrial> trials = given.single_trials();
      for (std::size_t k = 0; k < trials.size(); ++k) ratios[k].push_back(trials[k].error / exact[k].error);
    }
    int checked = 0;
    for (const std::vector<double>& ratio : ratios) {
      if (ratio.size() < kDraws) continue;
      double mean = 0, variance = 0;
      for (const double r : ratio) mean += r / kDraws;
      for (const double r : ratio) variance += (r - mean) * (r - mean) / (kDraws - 1);
      EXPECT_NEAR(mean, 1, 4 * std::sqrt(variance / kDraws) + 0.01) << checked;
      ++checked;
    }
    EXPECT_GE(checked, 12);
  }
}

TEST_P(Refined, InverseHasAFewDigits) {
  for (const Index heads : {100, 30}) {
    const Case given(execution(), 250, heads, true);
    const auto single = given.single();
    ASSERT_TRUE(single);
    const double shift = single->ridge * 250;
    const auto design = given.design();
    const Index size = given.dual ? 250 : design->columns();
    const std::vector<Index> head = design->head_of_column();
    Matrix<double> x(size, 2), back(size, 2);
    Stream stream(1, "x");
    std::fill_n(x.data(), size * 2, 0.0);
    for (Index i = 0; i < size; ++i)
      for (Index c = 0; c < 2 && (given.dual || head[std::size_t(i)] >= 0); ++c) x(i, c) = stream.normal();
    if (given.dual)  // K is singular along 1 where the band is not
      for (Index c = 0; c < 2; ++c) {
        double mean = 0;
        for (Index i = 0; i < size; ++i) mean += x(i, c) / double(size);
        for (Index i = 0; i < size; ++i) x(i, c) -= mean;
      }
    Matrix<double> ax = given.dual ? design->outer_product(x, "") : design->inner_product(x, "", {});
    for (Index i = 0; i < size * 2; ++i) ax.data()[i] += shift * x.data()[i];
    const auto path = given.single_gram(*design)->shift_path();
    path->factor(shift)->solve(ax, back);
    double error = 0, norm = 0;
    for (Index i = 0; i < size * 2; ++i) {
      error += std::pow(back.data()[i] - x.data()[i], 2);
      norm += std::pow(x.data()[i], 2);
    }
    EXPECT_LT(std::sqrt(error / norm), 0.05);
  }
}

TEST_P(Refined, RefusesWhatLeavesTheRangeOfFloat) {
  for (const double scale : {1e-9, 1e9}) {
    Case given(execution(), 100, 40, true);
    given.data.sets = Sets::from_arrays(normal_array<double>({100, 3}, 6, scale),
                                        normal_array<double>({100, 3, 3}, 5, scale));
    EXPECT_FALSE(given.single());
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Refined, testing::ValuesIn(backend_names()),
                         [](const auto& test) { return test.param; });

TEST(LeftOut, DrawsDifferentExamples) {
  EXPECT_EQ(draw_examples(3, 5, 1), (std::vector<Index>{0, 1, 2}));
  const std::vector<Index> some = draw_examples(1000, 100, 1);
  EXPECT_EQ(std::set<Index>(some.begin(), some.end()).size(), 100U);
  EXPECT_TRUE(std::is_sorted(some.begin(), some.end()));
  EXPECT_LT(some.back(), 1000);
  EXPECT_EQ(some, draw_examples(1000, 100, 1));
  EXPECT_NE(some, draw_examples(1000, 100, 2));
}

}  // namespace
}  // namespace headlens::training

// The course of descent in factors on a machine whose errors are told: batches that grow, steps that get
// smaller, and heads that are merged for good.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "backend/backend.hpp"
#include "headlens/recover.hpp"
#include "linalg/vector_space.hpp"
#include "recover/factors/descend.hpp"
#include "recover/factors/factors.hpp"

namespace headlens::recovery {
namespace {

constexpr Index kTokens = 4, kDim = 3, kFirstBatch = 800;  // 3200 rows

// Held-out errors of the values and of their running mean after so many steps.
struct Script {
  std::function<double(int)> error, mean;
};
struct Seen {
  std::vector<Index> batches;
  std::vector<double> rates;
  std::vector<Index> heads;  // of every descent that began
  int to_mean = 0;
};

// The outputs of a layer are the labels less a share of them, which is the first entry of its O.
class ScriptedMachine final : public backend::Backend {
 public:
  explicit ScriptedMachine(Script script) : script_(std::move(script)) {}
  std::string_view name() const override { return "scripted"; }
  std::unique_ptr<backend::FactorDescent> make_factor_descent(const backend::LayerExamples&,
                                                              const backend::HeadRanks& ranks,
                                                              const backend::FactorValues& start,
                                                              const backend::Context&) override {
    seen.heads.push_back(ranks.heads());
    return std::make_unique<Descent>(*this, start);
  }
  Matrix<double> apply_factors(const backend::LayerExamples& examples, const backend::HeadRanks&,
                               const backend::FactorValues& values, const backend::Context&) override {
    Matrix<double> out = copy_of<double>(examples.y);
    for (Index i = 0; i < out.rows() * out.cols(); ++i) out.data()[i] *= 1 - values.o(0, 0);
    return out;
  }
  Seen seen;

 private:
  class Descent final : public backend::FactorDescent {
   public:
    Descent(ScriptedMachine& machine, const backend::FactorValues& start)
        : machine_(machine), parameters_(copy_of(start.parameters)), o_(copy_of(start.o)) {}
    double step(const std::vector<Index>& batch, double rate) override {
      machine_.seen.batches.push_back(static_cast<Index>(batch.size()));
      machine_.seen.rates.push_back(rate);
      return 0.01;
    }
    backend::FactorValues values() const override { return told(machine_.script_.error); }
    backend::FactorValues mean_values() const override { return told(machine_.script_.mean); }
    void go_to_mean() override { ++machine_.seen.to_mean; }

   private:
    backend::FactorValues told(const std::function<double(int)>& error) const {
      backend::FactorValues out{copy_of(parameters_), copy_of(o_)};
      out.o(0, 0) = error(static_cast<int>(machine_.seen.batches.size()));
      return out;
    }
    ScriptedMachine& machine_;
    Matrix<double> parameters_, o_;
  };
  Script script_;
};

// Newton that never takes over, and merges to one head where it is asked.
class Newton final : public Successor {
 public:
  void look(const Factors&) override {}
  bool take_over(const Factors&, Try) override { return false; }
  std::optional<Factors> with_fresh_heads(const Factors&) override { return std::nullopt; }
  std::optional<Factors> with_heads_asked_for(const Factors&) override {
    ++merges;
    return merges_lose ? std::optional(random_factors(kDim, 2, 1, 1, 3, 0)) : std::nullopt;
  }
  bool merges_lose = true;
  int merges = 0;
};

struct Outcome {
  Seen seen;
  DescentResult result;
  int merges = 0;
};

Outcome descend_by(Script script, Index examples, int steps, bool merges_lose = true) {
  const Matrix<double> x = Matrix<double>::zeros(examples * kTokens, kDim);
  Matrix<double> y(examples * kTokens, 2);
  for (Index i = 0; i < y.rows() * y.cols(); ++i) y.data()[i] = 1 + static_cast<double>(i % 5);
  const Index held = std::min<Index>(examples, 100) * kTokens;
  const Split split{x.view(), y.view(), x.view().block(0, 0, held, kDim), y.view().block(0, 0, held, 2),
                    kTokens};
  ScriptedMachine machine(std::move(script));
  const backend::Replacement here(machine);
  Effort effort({}, {.threads = 1});
  Newton newton;
  newton.merges_lose = merges_lose;
  DescentResult result =
      descend(split, random_factors(kDim, 2, 2, 1, 5, 0), {.most_steps = steps}, 1, newton, effort);
  return {std::move(machine.seen), std::move(result), newton.merges};
}

const auto always = [](double value) { return [value](int) { return value; }; };

TEST(FactorDescent, BatchesStayWhileTheirNoiseIsNotInTheWay) {
  const Outcome out = descend_by({always(0.4), always(0.39)}, 30000, 200);
  EXPECT_EQ(out.seen.to_mean, 0);
  EXPECT_EQ(out.seen.batches, std::vector<Index>(200, kFirstBatch));
  EXPECT_NEAR(out.result.factors.held_out_error, 0.39, 1e-12);  // the better of the two
}

TEST(FactorDescent, BatchesGrowAndThenStepsShrinkWhereNoiseLimitsTheError) {
  const Outcome plain = descend_by({always(0.4), always(0.39)}, 30000, 150);
  const Outcome noisy = descend_by({always(0.4), always(0.2)}, 30000, 150);
  ASSERT_EQ(noisy.seen.batches.size(), 150u);
  EXPECT_EQ(noisy.seen.to_mean, 6);  // looks at every 25 steps
  const std::vector<Index> sizes = {kFirstBatch,      4 * kFirstBatch,  16 * kFirstBatch,
                                    16 * kFirstBatch, 16 * kFirstBatch, 16 * kFirstBatch};
  const std::vector<double> shares = {1, 1, 1, 0.25, 0.0625, 0.015625};
  for (std::size_t i = 0; i < 150; ++i) {
    EXPECT_EQ(noisy.seen.batches[i], sizes[i / 25]) << i;
    EXPECT_DOUBLE_EQ(noisy.seen.rates[i], shares[i / 25] * plain.seen.rates[i]) << i;
  }
}

TEST(FactorDescent, NoBatchHasMoreThanHalfOfTheExamples) {
  for (const Index examples : {3, 700, 801, 1601, 2000, 6000}) {
    const Outcome out = descend_by({always(0.4), always(0.2)}, examples, 100);
    const Index first = std::min(kFirstBatch, examples);
    EXPECT_EQ(out.seen.batches.front(), first);
    EXPECT_EQ(out.seen.batches.back(), std::max(first, std::min(16 * kFirstBatch, examples / 2)));
  }
}

// .04 is near the layer: Newton is tried. At .01 it is tried again, and where merging loses much, descent
// goes on with the merged heads. At .002 they are merged already.
TEST(FactorDescent, HeadsAreMergedForGoodOnce) {
  const auto falling = [](int step) { return step < 50 ? 0.04 : step < 75 ? 0.01 : 0.002; };
  const Outcome out = descend_by({falling, falling}, 2000, 200);
  EXPECT_EQ(out.merges, 1);
  EXPECT_EQ(out.seen.heads, (std::vector<Index>{2, 1}));
  EXPECT_EQ(out.result.factors.heads(), 1);
  EXPECT_EQ(out.result.steps, 200);
}

TEST(FactorDescent, HeadsStayWhereMergingLosesLittle) {
  const auto falling = [](int step) { return step < 50 ? 0.04 : step < 75 ? 0.01 : 0.002; };
  const Outcome out = descend_by({falling, falling}, 2000, 200, false);
  EXPECT_EQ(out.merges, 2);  // asked again at the next try
  EXPECT_EQ(out.seen.heads, (std::vector<Index>{2}));
  EXPECT_EQ(out.result.factors.heads(), 2);
}

}  // namespace
}  // namespace headlens::recovery

// Weights of stacked predictions against the loss as plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "automatic/stack.hpp"
#include "base/random.hpp"

namespace headlens::automatic {
namespace {

struct Problem {
  Matrix<double> y;
  std::vector<Matrix<double>> predictions;
  std::vector<const Matrix<double>*> views() const {
    std::vector<const Matrix<double>*> out;
    for (const Matrix<double>& one : predictions) out.push_back(&one);
    return out;
  }
};

// Predictions that go with y more or less, and with each other.
Problem draw(std::uint64_t seed, Index n, Index outputs, std::size_t count) {
  Stream stream(seed, "stack-test");
  Problem out{Matrix<double>(n, outputs), {}};
  Matrix<double> shared(n, outputs);
  for (Index i = 0; i < n; ++i)
    for (Index o = 0; o < outputs; ++o) {
      out.y(i, o) = stream.normal() + 3;
      shared(i, o) = stream.normal();
    }
  for (std::size_t c = 0; c < count; ++c) {
    const double own = c == 0 ? 1 : stream.normal();
    Matrix<double> one(n, outputs);
    for (Index i = 0; i < n; ++i)
      for (Index o = 0; o < outputs; ++o)
        one(i, o) = own * out.y(i, o) + shared(i, o) + 0.3 * stream.normal() - static_cast<double>(c);
    out.predictions.push_back(std::move(one));
  }
  return out;
}

// |y - b - sum w p|^2 + |y - mean|^2 |w|^2 / 100 with the best b of every output, as plain loops.
double loss(const Problem& p, const std::vector<double>& w) {
  double sum = 0, variation = 0, squares = 0;
  for (Index o = 0; o < p.y.cols(); ++o) {
    std::vector<double> rest;
    double mean = 0, mean_y = 0;
    for (Index i = 0; i < p.y.rows(); ++i) {
      double r = p.y(i, o);
      for (std::size_t c = 0; c < w.size(); ++c) r -= w[c] * p.predictions[c](i, o);
      rest.push_back(r);
      mean += r / static_cast<double>(p.y.rows());
      mean_y += p.y(i, o) / static_cast<double>(p.y.rows());
    }
    for (const double r : rest) sum += (r - mean) * (r - mean);
    for (Index i = 0; i < p.y.rows(); ++i) variation += (p.y(i, o) - mean_y) * (p.y(i, o) - mean_y);
  }
  for (const double one : w) squares += one * one;
  return sum + 0.01 * variation * squares;
}

// The loss is convex: weights are best over w >= 0 if no step of one weight, up or (above zero) down, helps.
TEST(Stacking, NoStepOfAWeightHelps) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Problem p = draw(seed, 30, 1 + static_cast<Index>(seed % 3), 2 + seed % 6);
    const std::vector<double> w = stacking_weights(p.views(), p.y, p.predictions.size());
    const double found = loss(p, w);
    for (std::size_t c = 0; c < w.size(); ++c) {
      EXPECT_GE(w[c], 0);
      for (const double step : {1e-3, -1e-3}) {
        std::vector<double> other = w;
        other[c] = std::max(0.0, other[c] + step);
        EXPECT_GE(loss(p, other), found * (1 - 1e-12)) << "seed " << seed << ", weight " << c;
      }
    }
  }
}

TEST(Stacking, AtMostSoManyCount) {
  const Problem p = draw(3, 40, 1, 8);
  for (std::size_t most = 1; most <= 8; ++most) {
    const std::vector<double> w = stacking_weights(p.views(), p.y, most);
    EXPECT_LE(std::count_if(w.begin(), w.end(), [](double one) { return one > 0; }), static_cast<long>(most));
  }
}

TEST(Stacking, APredictionThatIsRightTakesAll) {
  Problem p = draw(4, 40, 1, 3);
  for (Index i = 0; i < 40; ++i) p.predictions[1](i, 0) = p.y(i, 0) - 7;
  const std::vector<double> w = stacking_weights(p.views(), p.y, 3);
  EXPECT_GT(w[1], 0.9);  // but for the hundredth that shares weights: 1 / 1.01 alone
  EXPECT_LT(w[1], 1);
}

TEST(Stacking, PredictionsThatSayNothingLeaveTheFirst) {
  Problem p = draw(5, 10, 1, 3);
  for (Matrix<double>& one : p.predictions)
    for (Index i = 0; i < 10; ++i) one(i, 0) = -p.y(i, 0);
  EXPECT_EQ(stacking_weights(p.views(), p.y, 3), (std::vector<double>{1, 0, 0}));
}

}  // namespace
}  // namespace headlens::automatic

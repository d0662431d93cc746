#include "automatic/uncertainty.hpp"

#include <algorithm>
#include <cmath>

#include "headlens/error.hpp"

namespace headlens {
namespace automatic {
namespace {

// The class of row i, as a column: the last is 1 for two classes.
Index label_column(MatrixView<const double> y, Index i) {
  if (y.cols == 1) return y(i, 0) > 0;
  Index c = 0;
  while (y(i, c) < 0) ++c;
  return c;
}

// Scores as one column per class.
std::vector<double> class_scores(MatrixView<const double> f, Index i) {
  if (f.cols == 1) return {0.0, f(i, 0)};
  return {f.row(i), f.row(i) + f.cols};
}

// Minus the mean log likelihood of softmax(a f) is convex in a. Its derivative: the mean of <p, f> - f_own.
double loss_derivative(MatrixView<const double> f, MatrixView<const double> y, double a) {
  double out = 0;
  for (Index i = 0; i < f.rows; ++i) {
    const std::vector<double> scores = class_scores(f, i);
    const double top = a * *std::max_element(scores.begin(), scores.end());
    double sum = 0, mean = 0;
    for (const double s : scores) {
      const double weight = std::exp(a * s - top);
      sum += weight;
      mean += weight * s;
    }
    const double own = scores[static_cast<std::size_t>(label_column(y, i))];
    out += (mean / sum - own) / static_cast<double>(f.rows);
  }
  return out;
}

// The most likely a, by bisection of its logarithm: the derivative rises with a. Held to [0.01, 100], for
// labels that are told apart without an error would ask for infinity.
double likely_slope(MatrixView<const double> f, MatrixView<const double> y) {
  double low = 0.01, high = 100;
  for (int step = 0; step < 60; ++step) {
    const double middle = std::sqrt(low * high);
    (loss_derivative(f, y, middle) > 0 ? high : low) = middle;
  }
  return std::sqrt(low * high);
}

double accuracy(MatrixView<const double> f, MatrixView<const double> y) {
  double hits = 0;
  for (Index i = 0; i < f.rows; ++i) {
    const std::vector<double> scores = class_scores(f, i);
    const auto best = std::max_element(scores.begin(), scores.end()) - scores.begin();
    hits += best == label_column(y, i);
  }
  return hits / static_cast<double>(f.rows);
}

// S, so that |S^T k|^2 is what the training sets take off the variance of the first member at its penalty.
Array spread_of(const Spectrum& spectrum, double penalty) {
  Array out(DType::f64, {spectrum.dual.rows(), spectrum.dual.cols()});
  for (Index j = 0; j < spectrum.dual.rows(); ++j)
    for (Index k = 0; k < spectrum.dual.cols(); ++k)
      out.data<double>()[j * spectrum.dual.cols() + k] =
          spectrum.dual(j, k) / std::sqrt(spectrum.values[static_cast<std::size_t>(k)] + penalty);
  return out;
}

void learn_deviations(AutomaticModel& model, const LeaveOneOut& loo, MatrixView<const double> predictions,
                      MatrixView<const double> y) {
  const Index n = y.rows, q = y.cols;
  model.noise = Array(DType::f64, {q});
  model.residuals = Array(DType::f64, {n, q});
  for (Index c = 0; c < q; ++c) {
    double square = 0;
    for (Index i = 0; i < n; ++i) {
      const double error = y(i, c) - predictions(i, c);
      square += error * error * loo.leverage[static_cast<std::size_t>(i)] / static_cast<double>(n);
    }
    // Targets that are predicted to the last digit still have that digit's uncertainty.
    const double noise = std::max(std::sqrt(square), 1e-300);
    model.noise.data<double>()[c] = noise;
    std::vector<double> ratios(static_cast<std::size_t>(n));
    for (Index i = 0; i < n; ++i)
      ratios[static_cast<std::size_t>(i)] = std::abs(y(i, c) - predictions(i, c)) *
                                            std::sqrt(loo.leverage[static_cast<std::size_t>(i)]) / noise;
    std::sort(ratios.begin(), ratios.end());
    for (Index i = 0; i < n; ++i)
      model.residuals.data<double>()[i * q + c] = ratios[static_cast<std::size_t>(i)];
  }
}

}  // namespace

void learn_uncertainty(AutomaticModel& model, const Spectrum& first, const LeaveOneOut& loo,
                       MatrixView<const double> predictions, MatrixView<const double> y) {
  for (Index i = 0; i < y.rows; ++i)
    for (Index c = 0; c < y.cols; ++c)
      model.loo_error += std::pow(y(i, c) - predictions(i, c), 2) / static_cast<double>(y.rows * y.cols);
  if (model.is_classifier()) {
    model.slope = likely_slope(predictions, y);
    model.loo_accuracy = accuracy(predictions, y);
    return;
  }
  learn_deviations(model, loo, predictions, y);
  model.spread = spread_of(first, loo.penalty);
  model.kernel_means = Array::from(first.means, {static_cast<Index>(first.means.size())});
}

}  // namespace automatic

std::vector<double> interval_factors(const AutomaticModel& model, double coverage) {
  require(!model.is_classifier(), "intervals are for regression; classifiers have probabilities");
  require(coverage > 0 && coverage < 1, "coverage: ", coverage,
          " given, expected a number above 0 and below 1");
  const Index n = model.residuals.dim(0), q = model.residuals.dim(1);
  // The rank that a fresh residual does not exceed with this probability.
  const auto rank = static_cast<Index>(std::ceil(coverage * static_cast<double>(n + 1)));
  require(rank <= n, "coverage: ", coverage, " given, but the model was fitted on ", n,
          " sets, which say nothing beyond ", static_cast<double>(n) / static_cast<double>(n + 1));
  std::vector<double> out;
  for (Index c = 0; c < q; ++c) out.push_back(model.residuals.data<double>()[(rank - 1) * q + c]);
  return out;
}

}  // namespace headlens

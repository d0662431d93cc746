// The step function of a hidden sum whose set is known: the mean label of every value of the sum.
#include <algorithm>
#include <cmath>

#include "attention/packing.hpp"
#include "headlens/hardness.hpp"
#include "recover/parity/parity.hpp"

namespace headlens::recovery {
namespace {

constexpr double kLeastJump = 1e-7;  // of the largest value: smaller ones are what a finite sharpness leaves

// t + size of every example.
std::vector<Index> step_levels(const ActiveExamples& active, const std::vector<Index>& set) {
  std::vector<Index> levels(static_cast<std::size_t>(active.count()), static_cast<Index>(set.size()));
  for (Index i = 0; i < active.count(); ++i)
    for (const Index j : set)
      levels[static_cast<std::size_t>(i)] += active.differences(0, i) * active.differences(j, i);
  return levels;
}

// y = x[0] rest where the control is off: the mean of x[0] y.
std::vector<double> rest_of(MatrixView<const double> x, MatrixView<const double> y) {
  std::vector<double> rest(static_cast<std::size_t>(y.cols), 0);
  double count = 0;
  for (Index row = 0; row + 1 < x.rows; row += 2) {
    if (x(row, 0) != x(row + 1, 0)) continue;
    ++count;
    for (Index c = 0; c < y.cols; ++c)
      rest[static_cast<std::size_t>(c)] += x(row, 0) * (y(row, c) + y(row + 1, c)) / 2;
  }
  for (double& value : rest) value /= std::max(count, 1.0);
  return rest;
}

}  // namespace

Matrix<signed char> hidden_signs(const ActiveExamples& active) {
  Matrix<signed char> signs(active.differences.rows(), active.count());
  for (Index j = 0; j < signs.rows(); ++j)
    for (Index i = 0; i < signs.cols(); ++i)
      signs(j, i) = static_cast<signed char>(active.differences(0, i) * active.differences(j, i));
  return signs;
}

StepFit fit_steps(const ActiveExamples& active, const std::vector<Index>& set, MatrixView<const double> x,
                  MatrixView<const double> y) {
  const Index outputs = active.labels.rows(), last = 2 * static_cast<Index>(set.size());
  StepFit out{Matrix<double>::zeros(outputs, last + 1), rest_of(x, y)};
  std::vector<double> counts(static_cast<std::size_t>(last + 1), 0);
  const std::vector<Index> levels = step_levels(active, set);
  for (Index i = 0; i < active.count(); ++i) {
    const Index t = levels[static_cast<std::size_t>(i)];
    ++counts[static_cast<std::size_t>(t)];
    for (Index c = 0; c < outputs; ++c) out.values(c, t) += active.labels(c, i);
  }
  // Examples with the control off say what G is at both ends.
  const bool ends_known = active.count() < x.rows / 2;
  for (Index t = 0; t <= last; ++t)
    out.unseen += counts[static_cast<std::size_t>(t)] == 0 && !(ends_known && (t == 0 || t == last)) ? 1 : 0;
  for (Index c = 0; c < outputs; ++c) {
    double& rest = out.rest[static_cast<std::size_t>(c)];
    for (Index t = 0; t <= last; ++t)
      if (const double n = counts[static_cast<std::size_t>(t)]; n > 0) out.values(c, t) /= n;
    // G(-size) = -rest and G(size) = rest for every layer of this class; between them an unseen value is that
    // of its neighbour, which needs no head.
    if (counts.front() == 0) out.values(c, 0) = -rest;
    if (counts.back() == 0) out.values(c, last) = rest;
    for (Index t = 1; t < last; ++t)
      if (counts[static_cast<std::size_t>(t)] == 0) out.values(c, t) = out.values(c, t - 1);
    const double middle = (out.values(c, 0) + out.values(c, last)) / 2;
    for (Index t = 0; t <= last; ++t) out.values(c, t) -= middle;
    rest = out.values(c, last);
  }
  return out;
}

double StepFit::largest() const {
  double size = 0;
  for (Index c = 0; c < values.rows(); ++c)
    for (Index t = 0; t < values.cols(); ++t) size = std::max(size, std::abs(values(c, t)));
  return size;
}

double squared_error(const ActiveExamples& active, const std::vector<Index>& set, const StepFit& fit) {
  const std::vector<Index> levels = step_levels(active, set);
  double sum = 0;
  for (Index i = 0; i < active.count(); ++i)
    for (Index c = 0; c < active.labels.rows(); ++c) {
      const double miss = fit.values(c, levels[static_cast<std::size_t>(i)]) - active.labels(c, i);
      sum += miss * miss;
    }
  return sum;
}

Candidate step_candidate(Index dim, const std::vector<Index>& set, const StepFit& fit) {
  const Index outputs = fit.values.rows(), jumps = fit.values.cols() - 1;
  std::vector<std::int64_t> weights(static_cast<std::size_t>(dim), 0);
  for (const Index j : set) weights[static_cast<std::size_t>(j)] = 1;
  std::vector<double> stairs;  // a jump at every step: one head for each
  for (Index t = 0; t <= jumps; ++t) stairs.push_back(static_cast<double>(t));
  const AttentionLayer all = step_layer(std::move(weights), stairs, kMostSharpness).layer;
  std::vector<Index> kept;
  for (Index t = 0; t < jumps; ++t) {
    double jump = 0;
    for (Index c = 0; c < outputs; ++c)
      jump = std::max(jump, std::abs(fit.values(c, t + 1) - fit.values(c, t)));
    if (jump > kLeastJump * fit.largest()) kept.push_back(t);
  }
  const auto heads = static_cast<Index>(kept.size());
  Array theta(DType::f64, {heads, dim, dim});
  Candidate out{{}, Matrix<double>::zeros(heads * dim, outputs)};
  for (Index i = 0; i < heads; ++i) {
    const Index t = kept[static_cast<std::size_t>(i)];
    std::copy_n(all.theta.data<double>() + t * dim * dim, dim * dim, theta.data<double>() + i * dim * dim);
    for (Index c = 0; c < outputs; ++c) out.w(i * dim, c) = (fit.values(c, t + 1) - fit.values(c, t)) / 2;
  }
  out.theta = pack_theta(theta);
  return out;
}

}  // namespace headlens::recovery

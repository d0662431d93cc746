#include "fit/convex/loss.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "headlens/error.hpp"

namespace headlens::training {
namespace {

using Derivatives = LossFunction::Derivatives;

Derivatives squared(double residual) { return {residual * residual, 2 * residual, 2}; }

Derivatives huber(double residual, double delta) {
  const double size = std::abs(residual);
  if (size <= delta) return {residual * residual / 2, residual, 1};
  return {delta * (size - delta / 2), std::copysign(delta, residual), 0};
}

// log(1 + e^-u), without overflow, and with full relative precision in both tails.
Derivatives logistic(double margin, double sign) {
  const double e = std::exp(-std::abs(margin));
  const double small = e / (1 + e);
  const double miss = margin >= 0 ? small : 1 / (1 + e);
  return {std::log1p(e) + std::max(0.0, -margin), -sign * miss, e / ((1 + e) * (1 + e))};
}

Derivatives hinge(double margin, double sign, double gamma) {
  const double miss = 1 - margin;
  if (miss <= 0) return {0, 0, 0};
  if (miss >= gamma) return {miss - gamma / 2, -sign, 0};
  return {miss * miss / (2 * gamma), -sign * miss / gamma, 1 / gamma};
}

// Replaces the scores by their softmax p.
void softmax(std::span<double> scores) {
  const double top = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& s : scores) sum += s = std::exp(s - top);
  for (double& s : scores) s /= sum;
}

// Replaces the scores by p - e_label; p_label - 1 as minus the sum of the others keeps its digits when it is
// tiny.
void multinomial_slope(std::span<double> scores, Index label) {
  softmax(scores);
  double& own = scores[static_cast<std::size_t>(label)];
  own = 0;
  own = -std::accumulate(scores.begin(), scores.end(), 0.0);
}

// log sum exp - f_label as log(1 + sum_{c != label} exp(f_c - f_label)): no cancellation when the loss is
// tiny.
double multinomial_value(const double* scores, Index classes, Index label) {
  const double top = *std::max_element(scores, scores + classes);
  double others = 0;
  for (Index c = 0; c < classes; ++c)
    if (c != label) others += std::exp(scores[c] - top);
  const double own = scores[label] - top;
  return own == 0 ? std::log1p(others) : std::log(others + std::exp(own)) - own;
}

}  // namespace

LossFunction LossFunction::regression(Loss kind, MatrixView<const double> targets, double huber_delta) {
  require(kind == Loss::squared || kind == Loss::huber, "loss: this loss needs class labels, not targets");
  require(targets.rows > 0 && targets.cols > 0, "loss: targets are ", targets.rows, " x ", targets.cols);
  require(huber_delta > 0 && std::isfinite(huber_delta), "loss: huber_delta is ", huber_delta,
          ", not positive");
  LossFunction out;
  out.kind_ = kind;
  out.rows_ = targets.rows;
  out.outputs_ = targets.cols;
  out.delta_ = huber_delta;
  std::vector<double> values;
  for (Index i = 0; i < targets.rows; ++i)
    values.insert(values.end(), targets.row(i), targets.row(i) + targets.cols);
  for (std::size_t i = 0; i < values.size(); ++i)
    require(std::isfinite(values[i]), "loss: target ", i, " is ", values[i], ", not finite");
  out.targets_ = std::make_shared<const std::vector<double>>(std::move(values));
  out.labels_ = std::make_shared<const std::vector<Index>>();
  return out.weighted(std::vector<double>(static_cast<std::size_t>(out.rows_), 1.0));
}

LossFunction LossFunction::classification(Loss kind, std::span<const Index> labels, Index classes) {
  require(kind == Loss::logistic || kind == Loss::hinge, "loss: this loss needs targets, not class labels");
  require(classes >= 2, "loss: ", classes, " classes, at least 2 needed");
  require(!labels.empty(), "loss: no labels");
  for (const Index label : labels)
    require(label >= 0 && label < classes, "loss: label ", label, " is not one of ", classes, " classes");
  LossFunction out;
  out.kind_ = kind;
  out.rows_ = static_cast<Index>(labels.size());
  out.outputs_ = classes == 2 ? 1 : classes;
  const bool multinomial = kind == Loss::logistic && classes > 2;
  std::vector<double> signs;
  for (std::size_t i = 0; !multinomial && i < labels.size(); ++i)
    for (Index c = 0; c < out.outputs_; ++c)
      signs.push_back(labels[i] == (classes == 2 ? 1 : c) ? 1.0 : -1.0);
  out.targets_ = std::make_shared<const std::vector<double>>(std::move(signs));
  out.labels_ = multinomial ? std::make_shared<const std::vector<Index>>(labels.begin(), labels.end())
                            : std::make_shared<const std::vector<Index>>();
  return out.weighted(std::vector<double>(labels.size(), 1.0));
}

LossFunction LossFunction::weighted(const std::vector<double>& weights) const {
  require(static_cast<Index>(weights.size()) == rows_, "loss: ", weights.size(), " weights for ", rows_,
          " rows");
  for (const double w : weights)
    require(w >= 0 && std::isfinite(w), "loss: weight ", w, " is not finite and >= 0");
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  require(total > 0 && std::isfinite(total), "loss: the weights sum to ", total);
  std::vector<double> shares(weights);
  for (double& s : shares) s /= total;
  LossFunction out = *this;
  out.shares_ = std::make_shared<const std::vector<double>>(std::move(shares));
  return out;
}

LossFunction LossFunction::smoothed(double gamma) const {
  ensure(kind_ == Loss::hinge, "loss: only the hinge is smoothed");
  require(gamma >= 0 && gamma <= 1, "loss: smoothing ", gamma, " is not in [0, 1]");
  LossFunction out = *this;
  out.gamma_ = gamma;
  return out;
}

double LossFunction::target(Index i, Index c) const {
  if (is_multinomial()) return (*labels_)[static_cast<std::size_t>(i)] == c ? 1.0 : 0.0;
  return (*targets_)[static_cast<std::size_t>(i * outputs_ + c)];
}

void LossFunction::check(MatrixView<const double> scores) const {
  ensure(scores.rows == rows_ && scores.cols == outputs_, "loss: scores are ", scores.rows, " x ",
         scores.cols, ", targets ", rows_, " x ", outputs_);
}

LossFunction::Derivatives LossFunction::at(double score, double target) const {
  switch (kind_) {
    case Loss::squared:
      return squared(score - target);
    case Loss::huber:
      return huber(score - target, delta_);
    case Loss::logistic:
      return logistic(target * score, target);
    case Loss::hinge:
      return hinge(target * score, target, gamma_);
  }
  throw Bug("loss: unknown kind");
}

double LossFunction::value(MatrixView<const double> scores) const {
  check(scores);
  double total = 0;
  for (Index i = 0; i < rows_; ++i) {
    if (share(i) == 0) continue;
    double row = 0;
    if (is_multinomial())
      row = multinomial_value(scores.row(i), outputs_, (*labels_)[static_cast<std::size_t>(i)]);
    else
      for (Index c = 0; c < outputs_; ++c) row += at(scores(i, c), target(i, c)).value;
    total += share(i) * row;
  }
  return total;
}

double LossFunction::sharp_value(MatrixView<const double> scores) const {
  return gamma_ > 0 ? smoothed(0).value(scores) : value(scores);
}

void LossFunction::gradient(MatrixView<const double> scores, MatrixView<double> out) const {
  check(scores);
  check(out);
  for (Index i = 0; i < rows_; ++i) {
    if (share(i) == 0) {
      std::fill_n(out.row(i), outputs_, 0.0);
    } else if (is_multinomial()) {
      std::copy_n(scores.row(i), outputs_, out.row(i));
      multinomial_slope({out.row(i), static_cast<std::size_t>(outputs_)},
                        (*labels_)[static_cast<std::size_t>(i)]);
      for (Index c = 0; c < outputs_; ++c) out(i, c) *= share(i);
    } else {
      for (Index c = 0; c < outputs_; ++c) out(i, c) = share(i) * at(scores(i, c), target(i, c)).slope;
    }
  }
}

Curvature LossFunction::curvature(MatrixView<const double> scores) const {
  check(scores);
  Curvature out;
  out.block_ = is_multinomial() ? Curvature::Block::multinomial : Curvature::Block::diagonal;
  out.blocks_ = Matrix<double>(rows_, outputs_);
  out.shares_ = *shares_;
  for (Index i = 0; i < rows_; ++i) {
    double* row = out.blocks_.view().row(i);
    if (is_multinomial()) {
      std::copy_n(scores.row(i), outputs_, row);
      softmax({row, static_cast<std::size_t>(outputs_)});
    } else {
      for (Index c = 0; c < outputs_; ++c)
        row[c] = share(i) == 0 ? 0 : share(i) * at(scores(i, c), target(i, c)).curvature;
    }
  }
  return out;
}

double LossFunction::curvature_bound() const {
  switch (kind_) {
    case Loss::squared:
      return 2;
    case Loss::huber:
      return 1;
    // p (1 - p) <= 1/4. Largest eigenvalue of diag(p) - p p^T: at most 1/2, reached at p = (1/2, 1/2, 0, ..).
    case Loss::logistic:
      return is_multinomial() ? 0.5 : 0.25;
    case Loss::hinge:
      return gamma_ > 0 ? 1 / gamma_ : std::numeric_limits<double>::infinity();
  }
  throw Bug("loss: unknown kind");
}

double LossFunction::smoothing_slack(MatrixView<const double> scores) const {
  check(scores);
  double total = 0;
  for (Index i = 0; gamma_ > 0 && i < rows_; ++i)
    for (Index c = 0; c < outputs_; ++c) {
      const double miss = 1 - target(i, c) * scores(i, c);
      if (miss > 0 && miss < gamma_) total += share(i) * miss * (1 - miss / gamma_);
    }
  return total;
}

void Curvature::apply(MatrixView<const double> direction, MatrixView<double> out) const {
  for (Index i = 0; i < rows(); ++i) {
    double mean = 0;
    const double scale = block_ == Block::multinomial ? shares_[static_cast<std::size_t>(i)] : 1;
    if (block_ == Block::multinomial)
      for (Index c = 0; c < outputs(); ++c) mean += blocks_(i, c) * direction(i, c);
    for (Index c = 0; c < outputs(); ++c) out(i, c) = scale * blocks_(i, c) * (direction(i, c) - mean);
  }
}

Matrix<double> Curvature::sum() const {
  Matrix<double> out = Matrix<double>::zeros(outputs(), outputs());
  for (Index i = 0; i < rows(); ++i) {
    const double share = shares_[static_cast<std::size_t>(i)];
    for (Index c = 0; c < outputs(); ++c) {
      out(c, c) += block_ == Block::multinomial ? share * blocks_(i, c) : blocks_(i, c);
      for (Index d = 0; block_ == Block::multinomial && d < outputs(); ++d)
        out(c, d) -= share * blocks_(i, c) * blocks_(i, d);
    }
  }
  return out;
}

}  // namespace headlens::training

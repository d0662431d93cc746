// Convex losses of the scores F (n x q): L(F) = sum_i w_i loss(F_i, y_i) / sum_i w_i, weights 1 unless given.
//
//   squared      sum_c (f_c - y_c)^2
//   huber        sum_c r^2 / 2 where |r| = |f_c - y_c| <= delta, delta (|r| - delta / 2) beyond
//   logistic     two classes, one score: log(1 + exp(-s f)), s = -1 for class 0 and +1 for class 1
//                more, one score per class: log sum_c exp(f_c) - f_label
//   hinge        two classes, one score: max(0, 1 - s f); more: the sum over classes of one against the rest
//   hinge_gamma  the hinge made smooth: (1 - u)^2 / (2 gamma) where 1 - gamma < u = s f < 1,
//                1 - u - gamma / 2 where u is below that. Hence hinge - gamma / 2 <= hinge_gamma <= hinge.
//
// Every call costs O(n q). Rows of weight 0 do not count: cross-validation masks rows instead of copying
// data.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "headlens/model.hpp"
#include "linalg/matrix.hpp"

namespace headlens::training {

// The second derivative of L at one F: block diagonal, one positive semidefinite q x q block per example.
class Curvature {
 public:
  Index rows() const { return blocks_.rows(); }
  Index outputs() const { return blocks_.cols(); }
  void apply(MatrixView<const double> direction, MatrixView<double> out) const;
  Matrix<double> sum() const;  // q x q, over the examples: the second derivative along 1 b^T

 private:
  friend class LossFunction;
  enum class Block { diagonal, multinomial };

  Block block_ = Block::diagonal;
  Matrix<double> blocks_;       // share times the second derivatives; or the probabilities p of
  std::vector<double> shares_;  // share (diag(p) - p p^T)
};

// Copies share the targets.
class LossFunction {
 public:
  // squared or huber
  static LossFunction regression(Loss kind, MatrixView<const double> targets, double huber_delta = 1);
  // logistic or hinge; labels in [0, classes). Two classes have one score.
  static LossFunction classification(Loss kind, std::span<const Index> labels, Index classes);

  LossFunction weighted(const std::vector<double>& weights) const;  // n weights >= 0, not all 0
  LossFunction smoothed(double gamma) const;                        // hinge only; 0 is the hinge itself

  Loss kind() const { return kind_; }
  Index rows() const { return rows_; }
  Index outputs() const { return outputs_; }
  bool is_multinomial() const { return !labels_->empty(); }
  double gamma() const { return gamma_; }
  double share(Index i) const { return shares_->at(static_cast<std::size_t>(i)); }  // w_i / sum w
  double target(Index i, Index c) const;  // y, or +-1; 0 or 1 for the multinomial

  double value(MatrixView<const double> scores) const;
  double sharp_value(MatrixView<const double> scores) const;  // of the loss before smoothing
  void gradient(MatrixView<const double> scores, MatrixView<double> out) const;
  Curvature curvature(MatrixView<const double> scores) const;

  // Largest eigenvalue a block can have at weight 1 (infinite for the hinge itself).
  double curvature_bound() const;

  // The gradient G of the smoothed loss is an epsilon-subgradient of the hinge: for every F',
  //   L(F') >= L(F) + <G, F' - F> - epsilon,
  //   epsilon = sum_i share_i (1 - u)(1 - a),  a = min(1, (1 - u) / gamma),
  // summed where 1 - gamma < u < 1. At most gamma / 4 per score, and usually far less. 0 for the other
  // losses.
  double smoothing_slack(MatrixView<const double> scores) const;

  struct Derivatives {
    double value, slope, curvature;
  };
  // One score with one target; not for the multinomial, whose scores are coupled.
  Derivatives at(double score, double target) const;

 private:
  void check(MatrixView<const double> scores) const;

  Loss kind_ = Loss::squared;
  Index rows_ = 0;
  Index outputs_ = 0;
  double delta_ = 1;
  double gamma_ = 0;
  std::shared_ptr<const std::vector<double>> targets_;  // n x q; empty for the multinomial
  std::shared_ptr<const std::vector<Index>> labels_;    // for the multinomial only
  std::shared_ptr<const std::vector<double>> shares_;
};

}  // namespace headlens::training

#include "recover/descent.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "attention/attention_map.hpp"
#include "base/random.hpp"
#include "linalg/multiply.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::recovery {
namespace {

constexpr double kRate = 1e-2;  // in units in which tokens and labels have size one
constexpr double kMean = 0.9, kSquare = 0.999, kAdamSmall = 1e-8;  // as in the paper of Adam
constexpr int kTracePoints = 200;

// One array of parameters with its running means.
struct Moving {
  Matrix<double> value, gradient, mean, square;

  explicit Moving(Matrix<double> start)
      : value(std::move(start)),
        gradient(Matrix<double>::zeros(value.rows(), value.cols())),
        mean(Matrix<double>::zeros(value.rows(), value.cols())),
        square(Matrix<double>::zeros(value.rows(), value.cols())) {}

  void step(int t, double rate) {
    const double mean_share = 1 - std::pow(kMean, t), square_share = 1 - std::pow(kSquare, t);
    for (Index i = 0; i < value.rows() * value.cols(); ++i) {
      const double g = gradient.data()[i];
      double &m = mean.data()[i], &s = square.data()[i];
      m += (1 - kMean) * (g - m);
      s += (1 - kSquare) * (g * g - s);
      value.data()[i] -= rate * (m / mean_share) / (std::sqrt(s / square_share) + kAdamSmall);
    }
  }
};

// F - Y and its gradients for the training examples, in arrays that are kept from step to step.
class LabelLoss {
 public:
  LabelLoss(const Split& split, Index heads, int threads)
      : split_(split),
        map_(split.train_x, split.tokens, heads, threads),
        p_(split.train_x.rows * heads, split.tokens),
        phi_(split.train_x.rows, heads * split.train_x.cols),
        values_(split.train_x.rows / split.tokens * split.train_y.cols, heads * split.tokens),
        residual_(split.train_x.rows, split.train_y.cols),
        y_squares_(squared_norm(split.train_y)),
        threads_(threads) {}

  // The loss there, and its gradients.
  double at(Moving& theta, Moving& w) {
    map_.evaluate(theta.value.view(), p_.view(), phi_.view());
    for (Index i = 0; i < residual_.rows(); ++i)
      std::copy_n(split_.train_y.row(i), residual_.cols(), residual_.view().row(i));
    multiply(Trans::no, Trans::no, 1.0, std::as_const(phi_).view(), std::as_const(w.value).view(), -1.0,
             residual_.view(), threads_);
    const double factor = y_squares_ > 0 ? 2 / y_squares_ : 0;
    multiply(Trans::yes, Trans::no, factor, std::as_const(phi_).view(), std::as_const(residual_).view(), 0.0,
             w.gradient.view(), threads_);
    map_.values(w.value.view(), values_.view());
    map_.adjoint(p_.view(), values_.view(), residual_.view(), theta.gradient.view());
    for (Index i = 0; i < theta.gradient.rows() * theta.gradient.cols(); ++i)
      theta.gradient.data()[i] *= factor;
    return y_squares_ > 0 ? squared_norm(residual_) / y_squares_
                          : 1;  // zero labels: there is nothing to learn
  }

 private:
  const Split& split_;
  AttentionMap<double> map_;
  Matrix<double> p_, phi_, values_, residual_;
  double y_squares_;
  int threads_;
};

}  // namespace

Candidate random_layer(Index dim, Index outputs, Index heads, std::uint64_t seed, int start) {
  Candidate out{random_start(dim, heads, seed, start), Matrix<double>(heads * dim, outputs), 1, 1};
  Stream stream(seed, "start of W", static_cast<std::uint64_t>(start));
  for (Index i = 0; i < heads * dim * outputs; ++i)
    out.w.data()[i] = stream.normal() / std::sqrt(static_cast<double>(heads * dim));
  return out;
}

Candidate descend(const Split& split, Candidate from, int steps, Effort& effort) {
  const Index heads = from.heads();
  Moving theta(std::move(from.theta)), w(std::move(from.w));
  LabelLoss loss(split, heads, effort.threads());
  const int every = std::max(1, steps / kTracePoints);
  ++effort.starts;
  Candidate out;
  for (int t = 0;; ++t) {
    const double squares = loss.at(theta, w);
    const bool last = t == steps || !std::isfinite(squares) || effort.must_stop();
    if (t % every == 0 || last) {
      out.train_error = std::sqrt(squares);
      out.held_out_error = held_out_error(split, theta.value, w.value, effort.threads());
      effort.trace.push_back({"gradient", heads, effort.seconds(), out.train_error, t, out.held_out_error});
    }
    effort.latest = {copy_of(theta.value), copy_of(w.value), std::sqrt(squares), 1};
    effort.report("gradient", t, squares, heads);
    if (last) break;
    ++effort.steps;
    const double rate = kRate * (1 + std::cos(std::numbers::pi * t / steps)) / 2;
    for (Moving* part : {&theta, &w}) part->step(t + 1, rate);
  }
  out.theta = std::move(theta.value);
  out.w = std::move(w.value);
  return out;
}

Candidate find_by_descent(const Split& split, const RecoverOptions& options, Effort& effort) {
  Candidate best;
  for (int start = 0; start < options.starts && !(start > 0 && effort.expired()); ++start) {
    Candidate from =
        random_layer(split.train_x.cols, split.train_y.cols, *options.heads, options.seed, start);
    Candidate next = descend(split, std::move(from), options.steps, effort);
    if (start == 0 || !(best.held_out_error <= next.held_out_error)) best = std::move(next);
    if (best.held_out_error <= kProof) break;
  }
  return best;
}

}  // namespace headlens::recovery

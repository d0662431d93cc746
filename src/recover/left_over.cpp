#include "recover/left_over.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/random.hpp"
#include "linalg/vector_space.hpp"
#include "recover/certificate/bounds.hpp"
#include "recover/certificate/proof.hpp"
#include "recover/certificate/verdict.hpp"
#include "recover/grow.hpp"
#include "recover/linearisation.hpp"

namespace headlens::recovery {
namespace {

constexpr int kOtherStarts = 2;
constexpr int kMostAdded = 3;          // added one after the other
constexpr double kMostly = 0.1;        // of what is left, after a fit that needs no other
constexpr double kHeadHelps = 0.1;     // of the held-out error: less left by another head is no chance
constexpr double kPulledApart = 1e-2;  // of Theta: how far a head that may be two is pulled apart

// What the candidate leaves of the labels, in units of the size of a training entry.
struct Residuals {
  Matrix<double> train, held;

  Residuals(const Split& split, const Candidate& c, int threads)
      : train(residual_on(split.train_x, split.train_y, split.tokens, c.theta, c.w, threads)),
        held(residual_on(split.held_x, split.held_y, split.tokens, c.theta, c.w, threads)) {
    const double size = std::sqrt(squared_norm(train) / static_cast<double>(train.rows() * train.cols()));
    for (Matrix<double>* part : {&train, &held})
      for (Index i = 0; i < part->rows() * part->cols(); ++i) part->data()[i] /= std::max(size, 1e-300);
  }
};

double held_out_z(const Split& left, const Candidate& fitted, int threads) {
  const Matrix<double> after =
      residual_on(left.held_x, left.held_y, left.tokens, fitted.theta, fitted.w, threads);
  double sum = 0, squares = 0;
  for (Index row = 0; row < after.rows(); ++row) {
    double product = 0;
    for (Index c = 0; c < after.cols(); ++c)
      product += (left.held_y(row, c) - after(row, c)) * left.held_y(row, c);
    sum += product;
    squares += product * product;
  }
  return squares > 0 ? sum / std::sqrt(squares) : 0;
}

// Head i twice, pulled apart along a random direction.
Matrix<double> pair_around(const Matrix<double>& theta, Index i, std::uint64_t seed) {
  const Index d = theta.rows();
  const MatrixView<const double> head = theta.view().block(0, i * d, d, d);
  const double size = kPulledApart * std::max(std::sqrt(squared_norm(head)), 0.1) / static_cast<double>(d);
  Stream stream(seed, "pair", static_cast<std::uint64_t>(i));
  Matrix<double> out(d, 2 * d);
  for (Index a = 0; a < d; ++a)
    for (Index b = 0; b < d; ++b) {
      const double step = size * stream.normal();
      out(a, b) = head(a, b) + step;
      out(a, d + b) = head(a, b) - step;
    }
  return out;
}

// The heads with `found` beside them, in place of head i where that is not negative.
Matrix<double> joined(const Matrix<double>& theta, Index i, const Matrix<double>& found) {
  const Index d = theta.rows(), kept = theta.cols() - (i < 0 ? 0 : d);
  Matrix<double> out(d, kept + found.cols());
  for (Index a = 0; a < d; ++a) {
    double* to = out.view().row(a);
    for (Index c = 0; c < theta.cols(); ++c)
      if (i < 0 || c / d != i) *to++ = theta(a, c);
    std::copy_n(found.view().row(a), found.cols(), to);
  }
  return out;
}

}  // namespace

LeftOver find_left_over(const Split& split, const Candidate& candidate, std::uint64_t seed, Effort& effort) {
  const Index d = candidate.theta.rows();
  const Residuals residuals(split, candidate, effort.threads());
  Split left = split;
  left.train_y = residuals.train.view();
  left.held_y = residuals.held.view();
  left = first_examples(left, 2);
  LeftOver out;
  const auto attempt = [&](Index head, Matrix<double> start, double ridge) {
    const LmOptions options{.ridge = ridge, .max_steps = 40, .max_inner = 50, .stall_steps = 8};
    const Candidate fitted = solve_from(left, std::move(start), options, "left over", effort);
    const double z = held_out_z(left, fitted, effort.threads());
    if (z > out.z) out = {z, joined(candidate.theta, head, fitted.theta)};
    return fitted.held_out_error < kMostly;
  };
  for (int start = 0; start < kOtherStarts && !effort.expired(); ++start)
    if (attempt(-1, random_start(d, 1, seed, start), 1e-3)) return out;
  // The W of two heads that are nearly the same are large and opposite, which a ridge forbids.
  for (Index i = 0; i < candidate.heads() && !effort.expired(); ++i)
    if (attempt(i, pair_around(candidate.theta, i, seed), 1e-10)) return out;
  return out;
}

bool is_beyond_factors(const Split& split, Index heads) {
  return !can_be_dense(split, heads + 1) ||
         (heads + 1) * split.train_x.cols * split.train_x.cols > kMostGrown;
}

Candidate grow_large(const Split& split, Candidate candidate, std::uint64_t seed, Effort& effort) {
  for (int round = 0; round < kMostAdded && !effort.expired(); ++round) {
    if (examples_per_unknown(split, candidate.heads() + 1) < kFewestEquations) break;
    LeftOver more = find_left_over(split, candidate, seed, effort);
    if (!more.is_head()) break;
    const LmOptions on{.ridge = 0, .mu = 1e-5, .stall_steps = 12};
    Candidate next = solve_from(split, std::move(more.theta), on, "grow", effort);
    if (!(next.held_out_error < kHeadHelps * candidate.held_out_error)) break;
    candidate = last_digits(split, std::move(next), effort);
    if (explained(split, candidate, effort.threads())) break;
  }
  return candidate;
}

}  // namespace headlens::recovery

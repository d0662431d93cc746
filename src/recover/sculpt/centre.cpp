#include "recover/sculpt/centre.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "linalg/gram.hpp"
#include "linalg/multiply.hpp"
#include "linalg/regularised.hpp"

namespace headlens::recovery::sculpting {
namespace {

using Vector = std::vector<double>;

constexpr int kMostSteps = 40, kMostRounds = 8;
constexpr double kOutlier = 8;  // times the median distance of the slabs from the centre
constexpr Index kTileCuts = 4096;
constexpr double kShift =
    1e-10;  // of the mean eigenvalue: directions that no cut has seen stay where they are

double huber(double r, double bend) {
  r = std::abs(r);
  return r <= bend ? 0.5 * r * r : bend * (r - 0.5 * bend);
}

// sqrt(w) (<Theta, z> - t) for every cut, without forming z: <Theta, z> = (x_a Theta) . (x_b - x_c).
Vector distances(const Cuts& cuts, const std::vector<Cut>& which, const Vector& theta) {
  const Index d = cuts.dim();
  Vector out, image(static_cast<std::size_t>(d));
  out.reserve(which.size());
  Index row = -1;
  for (const Cut& cut : which) {
    if (cut.row != row) {
      row = cut.row;
      std::fill(image.begin(), image.end(), 0.0);
      for (Index i = 0; i < d; ++i)
        for (Index j = 0; j < d; ++j)
          image[static_cast<std::size_t>(j)] += cuts.x(row, i) * theta[static_cast<std::size_t>(i * d + j)];
    }
    const Index first = row / cuts.tokens * cuts.tokens;
    double at = -cut.offset;
    for (Index j = 0; j < d; ++j)
      at += image[static_cast<std::size_t>(j)] * (cuts.x(first + cut.b, j) - cuts.x(first + cut.c, j));
    out.push_back(std::sqrt(cut.weight) * at);
  }
  return out;
}

class Problem {
 public:
  Problem(const Cuts& cuts, const Effort& effort)
      : cuts_(cuts), effort_(effort), threads_(effort.threads()), bend_(cuts.tolerance) {}

  // The value at theta; keeps the distances for step().
  double value(const Vector& theta) {
    slabs_ = distances(cuts_, cuts_.slabs, theta), halves_ = distances(cuts_, cuts_.half_spaces, theta);
    double sum = 0;
    for (const double r : slabs_) sum += huber(r, bend_);
    for (const double r : halves_) sum += huber(std::max(0.0, r), bend_);
    return sum;
  }

  // Newton's step from the theta of the last value().
  Vector step() const {
    const Index size = cuts_.unknowns();
    Matrix<double> gram = Matrix<double>::zeros(size, size), moment = Matrix<double>::zeros(size, 1),
                   out = Matrix<double>::zeros(size, 1);
    add(cuts_.slabs, slabs_, gram, moment);
    add(cuts_.half_spaces, halves_, gram, moment);
    double trace = 0;
    for (Index i = 0; i < size; ++i) trace += gram(i, i);
    (void)solve_regularised(gram, kShift * trace / static_cast<double>(size), moment, out, threads_);
    return {out.data(), out.data() + size};
  }

 private:
  bool pulls(const std::vector<Cut>& which, double distance) const {
    return &which == &cuts_.slabs || distance > 0;
  }

  // sum of h'(r)/r z z^T, and of -h'(r) z, over the cuts that pull.
  void add(const std::vector<Cut>& all, const Vector& distance, Matrix<double>& gram,
           Matrix<double>& moment) const {
    std::vector<Cut> which;
    Vector targets;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!pulls(all, distance[i])) continue;
      const double far = std::abs(distance[i]), curvature = far <= bend_ ? 1 : bend_ / far;
      which.push_back(all[i]);
      which.back().weight *= curvature;
      targets.push_back(-std::sqrt(curvature) * distance[i]);
    }
    const auto count = static_cast<Index>(which.size());
    for (Index first = 0; first < count; first += kTileCuts) {
      (void)effort_.must_stop();  // throws where the user has asked for an end
      Matrix<double> normals(std::min(kTileCuts, count - first), gram.rows()), offsets(normals.rows(), 1);
      write_normals(cuts_, which, first, normals);
      std::copy_n(targets.begin() + first, normals.rows(), offsets.data());
      add_inner(std::as_const(normals).view(), gram, threads_);
      multiply(Trans::yes, Trans::no, 1.0, std::as_const(normals).view(), std::as_const(offsets).view(), 1.0,
               moment.view(), threads_);
    }
  }

  const Cuts& cuts_;
  const Effort& effort_;
  int threads_;
  double bend_;
  Vector slabs_, halves_;
};

// From theta on.
Vector minimiser(const Cuts& cuts, Vector theta, const Effort& effort) {
  Problem problem(cuts, effort);
  double value = problem.value(theta);
  for (int i = 0; i < kMostSteps && value > 0 && !effort.must_stop(); ++i) {
    const Vector step = problem.step();
    double share = 1, next = value;
    Vector trial = theta;
    for (; share > 1e-3; share /= 2) {
      for (std::size_t j = 0; j < theta.size(); ++j) trial[j] = theta[j] + share * step[j];
      next = problem.value(trial);
      if (next < value) break;
    }
    if (!(next < value)) break;
    const bool settled = next > value * (1 - 1e-6);
    theta = std::move(trial), value = next;
    if (settled) break;
  }
  return theta;
}

// The cuts that the centre of `some` of them does not miss by far.
Cuts near(const Cuts& all, const Cuts& some, const Vector& theta) {
  Vector sorted;
  for (const double r : distances(some, some.slabs, theta)) sorted.push_back(std::abs(r));
  std::sort(sorted.begin(), sorted.end());
  const double median = sorted.empty() ? 0 : sorted[sorted.size() / 2];
  const double most = std::max(all.tolerance, kOutlier * median);
  Cuts out{all.x, all.tokens, {}, {}, all.tolerance};
  const Vector of_slabs = distances(all, all.slabs, theta),
               of_halves = distances(all, all.half_spaces, theta);
  for (std::size_t i = 0; i < of_slabs.size(); ++i)
    if (std::abs(of_slabs[i]) <= most) out.slabs.push_back(all.slabs[i]);
  for (std::size_t i = 0; i < of_halves.size(); ++i)
    if (of_halves[i] <= most) out.half_spaces.push_back(all.half_spaces[i]);
  return out;
}

}  // namespace

Centre find_centre(const Cuts& cuts, const Effort& effort) {
  Centre out{Vector(static_cast<std::size_t>(cuts.unknowns()), 0.0), cuts, 0, 0};
  for (int round = 0; round < kMostRounds && !(round > 0 && effort.must_stop()); ++round) {
    out.theta = minimiser(out.cuts, std::move(out.theta), effort);
    Cuts next = near(cuts, out.cuts, out.theta);
    const bool settled = next.slabs.size() == out.cuts.slabs.size();
    out.cuts = std::move(next);
    if (settled) break;
  }
  const Vector of_halves = distances(out.cuts, out.cuts.half_spaces, out.theta);
  std::vector<std::pair<double, std::size_t>> tightest;
  for (std::size_t i = 0; i < of_halves.size(); ++i) tightest.emplace_back(-of_halves[i], i);
  std::sort(tightest.begin(), tightest.end());
  std::vector<Cut> sorted;
  for (const auto& [slack, i] : tightest) {
    sorted.push_back(out.cuts.half_spaces[i]);
    out.missed += slack < 0;
  }
  out.cuts.half_spaces = std::move(sorted);
  out.outliers = static_cast<Index>(cuts.slabs.size() - out.cuts.slabs.size() + cuts.half_spaces.size() -
                                    out.cuts.half_spaces.size());
  return out;
}

}  // namespace headlens::recovery::sculpting

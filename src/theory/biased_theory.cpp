#include "theory/biased_theory.hpp"

#include <cmath>

#include "base/parallel.hpp"
#include "headlens/error.hpp"
#include "linalg/cholesky.hpp"
#include "linalg/eigen.hpp"
#include "theory/relu_series.hpp"
#include "theory/target.hpp"

namespace headlens {
namespace {

constexpr Index kMaxDegree = 10;         // of the levels of a curve
constexpr std::size_t kMaxPoints = 160;  // of the lattice of a complexity
constexpr Index kStep = 8;               // degrees between two lower bounds of a complexity
constexpr double kConverged = 0.005;     // of the last step; each is a fraction of the one before
constexpr double kFloor = 1e-30;         // above the square of eps

// h^T K^-1 h on the points up to `degree`, scaled to a diagonal of 1 so that small eigenvalues keep their
// digits; none where rounding decides: entries of K come from products with an error of eps in each factor.
std::optional<double> norm(const BiasedBlock& block, Index degree) {
  std::vector<Index> used;
  for (std::size_t i = 0; i < block.points.size(); ++i)
    if (std::max(block.points[i].query_degree, block.points[i].key_degree) <= degree)
      used.push_back(static_cast<Index>(i));
  const Index count = static_cast<Index>(used.size());
  const auto at = [&](Index i) { return used[static_cast<std::size_t>(i)]; };
  double largest = 0;
  for (Index i = 0; i < count; ++i) largest = std::max(largest, block.kernel(at(i), at(i)));
  Matrix<double> scaled(count, count), solved(count, 1);
  for (Index i = 0; i < count; ++i) {
    const double diagonal = block.kernel(at(i), at(i));
    if (diagonal < kFloor * largest) return std::nullopt;
    solved(i, 0) = block.target[static_cast<std::size_t>(at(i))] / std::sqrt(diagonal);
    for (Index j = 0; j < count; ++j)
      scaled(i, j) = block.kernel(at(i), at(j)) / std::sqrt(diagonal * block.kernel(at(j), at(j)));
  }
  const std::vector<double> right(solved.data(), solved.data() + count);
  if (!cholesky(scaled, 1).ok()) return std::nullopt;
  cholesky_solve(scaled, solved, 1);
  double sum = 0;
  for (Index i = 0; i < count; ++i) sum += solved(i, 0) * right[static_cast<std::size_t>(i)];
  return sum;
}

// A type of functions; `line`: only the functions of the query alone, of degree `first`.
struct TypeJob {
  RotationType type;
  bool line = false;
};

struct TypeLevels {
  std::vector<Level> kept;
  std::vector<LearnedPart> parts;
  double largest_left_out = 0;
};

// The eigenvalues of S K S on points up to `degree`, and on the functions of the query beyond. Rows one
// degree further out say how large what is left out can be. The constant function is the intercept's.
TypeLevels type_levels(const BiasedKernel& kernel, const TypeJob& job, Index degree, double keys,
                       const std::vector<RotationTarget>& targets) {
  const auto [type, line] = job;
  const RotationTarget* target = nullptr;
  for (const RotationTarget& known : targets)
    if (!line && known.type.first == type.first && known.type.second == type.second) target = &known;
  const BiasedBlock block =
      line ? kernel.block(type, type.first, 0) : kernel.block(type, degree + 1, degree + 1, target);
  TypeLevels out;
  std::vector<Index> used;
  std::vector<double> scale;
  double unlearned = block.beyond / keys;
  for (std::size_t i = 0; i < block.points.size(); ++i) {
    const auto [a, b] = block.points[i];
    const double share = b == 0 ? 1 : 1 / keys;
    if (a + b == 0) continue;
    if (line && type.first <= 2 * degree ? true : std::max(a, b) <= degree) {
      used.push_back(static_cast<Index>(i));
      scale.push_back(std::sqrt(share));
    } else {
      if (b == 0 && !line) continue;  // the line has this one
      out.largest_left_out =
          std::max(out.largest_left_out, share * block.kernel(static_cast<Index>(i), static_cast<Index>(i)));
      if (target != nullptr) unlearned += share * block.target[i] * block.target[i];
    }
  }
  const Index count = static_cast<Index>(used.size());
  Matrix<double> sets(count, count);
  for (Index i = 0; i < count; ++i)
    for (Index j = 0; j < count; ++j)
      sets(i, j) = scale[static_cast<std::size_t>(i)] * scale[static_cast<std::size_t>(j)] *
                   block.kernel(used[static_cast<std::size_t>(i)], used[static_cast<std::size_t>(j)]);
  const SymmetricEigen eigen = symmetric_eigen(sets);
  ensure(eigen.ok(), "no eigenvalues of a type of functions");
  const double multiplicity = std::exp(log_dimension(kernel.dim(), type));
  for (Index k = 0; k < count; ++k) {
    const double value = std::max(0.0, eigen.values[static_cast<std::size_t>(k)]);
    out.kept.push_back({value, multiplicity});
    if (target == nullptr) continue;
    double sum = 0;
    for (Index i = 0; i < count; ++i)
      sum += eigen.vectors(k, i) * scale[static_cast<std::size_t>(i)] *
             block.target[static_cast<std::size_t>(used[static_cast<std::size_t>(i)])];
    out.parts.push_back({sum * sum, value});
  }
  if (unlearned > 0) out.parts.push_back({unlearned, 0});
  return out;
}

struct AllLevels {
  Levels levels;
  std::vector<LearnedPart> parts;
};

AllLevels all_levels(const BiasedKernel& kernel, const std::vector<RotationTarget>& targets, Index degree,
                     Index keys, double trace, int threads) {
  std::vector<TypeJob> jobs;
  for (Index l1 = 0; l1 <= 2 * degree; ++l1)
    for (Index l2 = 0; l2 <= std::min(l1, 2 * degree - l1); ++l2)
      if (std::isfinite(log_dimension(kernel.dim(), {l1, l2}))) jobs.push_back({{l1, l2}, false});
  for (Index l1 = degree + 1; l1 <= 2 * degree + 1; ++l1) jobs.push_back({{l1, 0}, true});
  std::vector<TypeLevels> found(jobs.size());
  parallel_for(threads, static_cast<Index>(jobs.size()), [&](Index i, int) {
    const auto at = static_cast<std::size_t>(i);
    found[at] = type_levels(kernel, jobs[at], degree, static_cast<double>(keys), targets);
  });
  AllLevels out;
  out.levels.trace = trace;
  double kept = 0;
  for (const TypeLevels& type : found) {
    for (const Level& level : type.kept) kept += level.eigenvalue * level.multiplicity;
    out.levels.kept.insert(out.levels.kept.end(), type.kept.begin(), type.kept.end());
    out.parts.insert(out.parts.end(), type.parts.begin(), type.parts.end());
    out.levels.largest_left_out = std::max(out.levels.largest_left_out, type.largest_left_out);
  }
  out.levels.rest = std::max(0.0, trace - kept);
  return out;
}

}  // namespace

std::vector<RotationTarget> rotation_targets(const TaskOptions& task) {
  const double d = static_cast<double>(task.dim);
  const int degree = task.degree;
  if (task.task == Task::native)
    return {{{1, 0}, {0, 1}, [](double t) { return relu_series(t, 2)[0]; }, 1 / std::sqrt(d), false}};
  if (task.task == Task::correlation) {
    RotationTarget target{{1, 0}, {0, 1}, nullptr, 1 / std::sqrt(d), task.pure};
    if (degree > 0) target.function = [degree](double t) { return std::pow(t, degree); };
    return {target};
  }
  std::vector<RotationTarget> targets;
  TaskOptions single = task;
  single.min_keys = single.max_keys = 1;
  for (const TargetPart& part : expand(single))
    targets.push_back({{part.query_degree + part.key_degree, 0},
                       {part.query_degree, part.key_degree},
                       nullptr,
                       std::exp(0.5 * part.log_square),
                       false});
  return targets;
}

BiasedComplexity biased_complexity(const BiasedKernel& kernel, const std::vector<RotationTarget>& targets) {
  BiasedComplexity out{0, true};
  for (const RotationTarget& target : targets) {
    Index most = target.type.first + kStep;
    while (lattice(target.type, most + kStep, most + kStep).size() <= kMaxPoints) most += kStep;
    const BiasedBlock block = kernel.block(target.type, most, most, &target);
    double before = 0, now = 0;
    bool known = false;
    for (Index degree = target.type.first + kStep; degree <= most; degree += kStep) {
      const std::optional<double> next = norm(block, degree);
      if (!next) break;
      before = now;
      now = *next;
      known = true;
      if (now - before <= 0.1 * kConverged * now) break;  // further out there is rounding alone
    }
    require(known, option("dim"), ": ", kernel.dim(),
            " given; the complexity of brfa is lost in rounding there, use fewer "
            "dimensions");
    out.value += now;
    out.converged = out.converged && now - before <= kConverged * now;
  }
  return out;
}

LearningCurve biased_curve(const BiasedKernel& kernel, const std::vector<RotationTarget>& targets, Index keys,
                           double noise, Index most_samples, const Execution& execution) {
  const double n = static_cast<double>(keys), constant = kernel.block({0, 0}, 0, 0).kernel(0, 0);
  const double trace = kernel.diagonal() / n + (1 - 1 / n) * kernel.between_keys() - constant;
  Index degree = 3;
  for (const RotationTarget& target : targets) degree = std::max(degree, target.type.first);
  for (;; degree += 1 + degree / 3) {
    require(degree <= kMaxDegree, option("samples"), ": harmonics beyond degree ", kMaxDegree,
            " would be needed for so many sets in dimension ", kernel.dim(),
            "; brfa has a prediction for fewer");
    AllLevels all = all_levels(kernel, targets, degree, keys, trace, thread_count(execution));
    LearningCurve curve(std::move(all.levels), std::move(all.parts), noise);
    if (curve.has_enough_levels(most_samples)) return curve;
  }
}

}  // namespace headlens

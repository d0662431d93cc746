#include "headlens/theory.hpp"

#include <algorithm>
#include <cmath>

#include "base/parallel.hpp"
#include "headlens/error.hpp"
#include "headlens/options.hpp"
#include "theory/biased_theory.hpp"
#include "theory/complexity.hpp"
#include "theory/head_curve.hpp"
#include "theory/head_variance.hpp"
#include "theory/learning_curve.hpp"

namespace headlens {

void TheoryOptions::validate() const {
  task.validate();
  require(task.dim >= 2 && task.dim <= 1000000, option("dim"), ": ", task.dim,
          " given, expected 2 to 1000000 (on the line a unit token is but a sign)");
  require(task.min_keys == task.max_keys, option("keys"), ": ", task.min_keys, ":", task.max_keys,
          " given, but theory takes sets of one size");
  require(
      task.task != Task::ordered,
      "ordered: the target depends on the order of the keys, and theory is about models that do not see that "
      "order; measure it with a fit and ",
      option("positions", "sinusoidal"));
  require(task.task != Task::mixture,
          "mixture: its two parts overlap by an amount that depends on beta; ask for correlation instead");
  if (model == ModelKind::brfa) {
    require(task.dim >= 3 && task.dim <= 1000, option("dim"), ": ", task.dim,
            " given, expected 3 to 1000 for brfa");
    require(task.task == Task::power_mean || task.task == Task::query_power ||
                task.matrix == TaskMatrix::identity,
            option("matrix"), ": ", name(task.matrix),
            " given, but for brfa theory knows the identity alone");
    require(task.task == Task::native || task.degree <= 8, option("degree"), ": ", task.degree,
            " given, expected 0 to 8 for brfa");
  }
  require(!bias_scale || model == ModelKind::brfa, option("bias-scale"), ": ", name(model),
          " given, expected brfa");
  check_ranges(*this);
  require(model == ModelKind::rfa || (heads == kInfiniteHeads && !error),
          option(heads == kInfiniteHeads ? "error" : "heads"),
          ": theory knows finitely many heads of rfa alone, and ", name(model), " is given");
  require(!samples.empty(), option("samples"), ": none given, expected 2 or more");
  for (const Index n : samples)
    require(n >= 2 && n <= (Index{1} << 40), option("samples"), ": ", n, " given, expected 2 to 2^40");
}

namespace {

void predict_heads(TheoryPoint& point, const TheoryOptions& options, const HeadCurve& curve,
                   double variance) {
  if (options.heads != kInfiniteHeads) {
    const Prediction best = curve.best(point.samples, options.heads);
    point.predicted_error = best.mean_square / variance;
    point.ridge = best.ridge * static_cast<double>(options.heads);
  }
  if (options.error) point.heads_needed = curve.heads_for(point.samples, *options.error * variance);
}

// E[K^2] is the sum of the squares of all eigenvalues, that of the constant function included.
void describe_kernel(Theory& theory, const TheoryOptions& options, const KernelSpectrum& spectrum,
                     Index degree) {
  const double constant = std::exp(spectrum.log_eigenvalue(0, 0));
  double square = constant * constant;
  for (const auto& [eigenvalue, multiplicity] : spectrum.levels(degree).kept)
    if (eigenvalue > 0) square += multiplicity * eigenvalue * eigenvalue;
  const double second = head_second_moment(options.task.dim, options.task.min_keys);
  theory.kernel_variance = (second - square) / static_cast<double>(options.heads);
  theory.kernel_deviation = std::sqrt(*theory.kernel_variance / square);
}

// What a model says of a target: everything that does not depend on the number of samples.
struct Known {
  Theory theory;
  std::optional<LearningCurve> curve;
  std::optional<HeadCurve> heads;
};

Known know_biased(const TheoryOptions& options, Index most_samples, const Execution& execution) {
  const TaskOptions& task = options.task;
  const BiasedKernel kernel(task.dim, options.bias_scale.value_or(1.0));
  const std::vector<RotationTarget> targets = rotation_targets(task);
  const double n = static_cast<double>(task.min_keys);
  Known known;
  const BiasedComplexity found = biased_complexity(kernel, targets);
  known.theory.complexity = found.value;
  known.theory.complexity_is_lower_bound = !found.converged;
  known.theory.kernel_mean = kernel.diagonal() / n + (1 - 1 / n) * kernel.between_keys();
  known.theory.kernel_most = kernel.most();
  known.curve.emplace(biased_curve(kernel, targets, task.min_keys, task.noise, most_samples, execution));
  return known;
}

// Harmonics: on unit tokens K(x, x) of attention is at most 2 kappa(1) = 1, that of the network is 1/2.
Known know_harmonic(const TheoryOptions& options, Index most_samples) {
  const TaskOptions& task = options.task;
  const std::vector<TargetPart> parts = expand(task);
  const auto spectrum = make_spectrum(options.model, task.dim, task.min_keys);
  Known known;
  known.theory.complexity = complexity(parts, *spectrum);
  require(std::isfinite(known.theory.complexity), "complexity of ", name(task.task), " at dim ", task.dim,
          " exceeds the range of numbers; expected a lower dim or degree");
  const LearningCurve& curve = known.curve.emplace(*spectrum, parts, task.noise, most_samples);
  known.theory.kernel_mean = curve.trace() + std::exp(spectrum->log_eigenvalue(0, 0));
  known.theory.kernel_most = options.model == ModelKind::mlp ? 0.5 : 1;
  if (options.heads != kInfiniteHeads || options.error)
    known.heads.emplace(head_spectrum(task.dim, task.min_keys, curve.degree()), parts, task.noise);
  if (options.heads != kInfiniteHeads) describe_kernel(known.theory, options, *spectrum, curve.degree());
  return known;
}

// The mean excess risk of the minimiser over |f|_K <= R, R^2 = B, is at most twice the Rademacher complexity
// of the ball times the slope of the loss. The squared loss of f - f* has slope 4 R sqrt(max K) there, and
// noise adds 2 sigma R sqrt(E[K] / n).
void bound_risk(TheoryPoint& point, const Theory& theory, double noise) {
  if (theory.complexity_is_lower_bound) return;
  const double radius = std::sqrt(theory.complexity),
               scale = radius * std::sqrt(theory.kernel_mean / static_cast<double>(point.samples));
  point.bound = 2 * scale;
  point.square_bound = (8 * radius * std::sqrt(theory.kernel_most) + 2 * noise) * scale;
}

TheoryPoint predict(const TheoryOptions& options, const Known& known, Index samples) {
  TheoryPoint point{.samples = samples};
  bound_risk(point, known.theory, options.task.noise);
  if (!(known.theory.variance > 0)) return point;
  if (options.heads == kInfiniteHeads) {
    const Prediction best = known.curve->best(samples);
    point.predicted_error = best.mean_square / known.theory.variance;
    point.ridge = best.ridge;
  }
  if (known.heads) predict_heads(point, options, *known.heads, known.theory.variance);
  return point;
}

}  // namespace

Theory evaluate_theory(const TheoryOptions& options, const Execution& execution) {
  const Heed heeding(execution);
  options.validate();
  const Index most_samples = *std::max_element(options.samples.begin(), options.samples.end());
  execution.report("theory", 0, static_cast<double>(options.samples.size()));
  Known known = options.model == ModelKind::brfa ? know_biased(options, most_samples, execution)
                                                 : know_harmonic(options, most_samples);
  known.theory.variance = known.curve->variance();
  if (options.task.dim <= 4)
    execution.note(join("in ", options.task.dim,
                        " dimensions measured errors lie above the prediction (docs/theory.md)"));
  for (std::size_t i = 0; i < options.samples.size(); ++i) {
    execution.check_cancelled();
    execution.report("theory", static_cast<double>(i), static_cast<double>(options.samples.size()));
    known.theory.points.push_back(predict(options, known, options.samples[i]));
  }
  return known.theory;
}

}  // namespace headlens

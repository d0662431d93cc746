#include "headlens/theory.hpp"

#include <algorithm>
#include <cmath>

#include "base/parallel.hpp"
#include "headlens/error.hpp"
#include "theory/complexity.hpp"
#include "theory/learning_curve.hpp"

namespace headlens {

void TheoryOptions::validate() const {
  task.validate();
  require(task.dim >= 2 && task.dim <= 1000000, "dim: ", task.dim,
          " given, expected 2 to 1000000 (on the line a unit token is but a sign)");
  require(task.min_keys == task.max_keys, "keys: ", task.min_keys, ":", task.max_keys,
          " given, but theory takes sets of one size");
  require(task.task != Task::ordered,
          "ordered: theory is about targets that do not depend on the order of the keys");
  require(task.task != Task::mixture,
          "mixture: its two parts overlap by an amount that depends on beta; ask for correlation instead");
  require(model != ModelKind::brfa,
          "model: brfa has no exact theory, because its mean ties the query to the keys and harmonics mix; "
          "expected rfa or mlp");
  require(!samples.empty(), "samples: none given, expected 2 or more");
  for (const Index n : samples)
    require(n >= 2 && n <= (Index{1} << 40), "samples: ", n, " given, expected 2 to 2^40");
}

Theory evaluate_theory(const TheoryOptions& options, const Execution& execution) {
  const Heed heeding(execution);
  options.validate();
  const TaskOptions& task = options.task;
  const std::vector<TargetPart> parts = expand(task);
  const auto spectrum = make_spectrum(options.model, task.dim, task.min_keys);
  Theory theory{.complexity = complexity(parts, *spectrum)};
  require(std::isfinite(theory.complexity), "complexity of ", name(task.task), " at dim ", task.dim,
          " exceeds the range of numbers; expected a lower dim or degree");
  const LearningCurve curve(*spectrum, parts, task.noise,
                            *std::max_element(options.samples.begin(), options.samples.end()));
  theory.variance = curve.variance();
  if (task.dim <= 4)
    execution.note(
        join("in ", task.dim, " dimensions measured errors lie above the prediction (docs/theory.md)"));
  for (std::size_t i = 0; i < options.samples.size(); ++i) {
    execution.check_cancelled();
    execution.report("theory", static_cast<double>(i), static_cast<double>(options.samples.size()));
    TheoryPoint point{.samples = options.samples[i]};
    point.bound = std::sqrt(theory.complexity / static_cast<double>(point.samples));
    if (theory.variance > 0) {
      const Prediction best = curve.best(point.samples);
      point.predicted_error = best.mean_square / theory.variance;
      point.ridge = best.ridge;
    }
    theory.points.push_back(point);
  }
  return theory;
}

}  // namespace headlens

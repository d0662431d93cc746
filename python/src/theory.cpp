// Theory of targets, in the words of `headlens theory --json`.
#include "headlens/theory.hpp"

#include <nanobind/stl/optional.h>

#include "arrays.hpp"
#include "bindings.hpp"
#include "call.hpp"

namespace headlens::python {
namespace {

nb::dict evaluate(const TheoryOptions& options, const Settings& settings) {
  const Theory theory = call(settings, [&](const Execution& e) { return evaluate_theory(options, e); });
  nb::list samples, bound, square, predicted, ridge, needed;
  for (const TheoryPoint& point : theory.points) {
    samples.append(point.samples);
    bound.append(point.bound);
    square.append(point.square_bound);
    predicted.append(point.predicted_error);
    needed.append(point.heads_needed);
    ridge.append(point.predicted_error ? std::optional(point.ridge) : std::nullopt);
  }
  nb::dict out;
  out["complexity"] = theory.complexity;
  out["complexity_is_lower_bound"] = theory.complexity_is_lower_bound;
  out["variance"] = theory.variance;
  out["kernel_mean"] = theory.kernel_mean;
  out["kernel_most"] = theory.kernel_most;
  out["kernel_variance"] = theory.kernel_variance;
  out["kernel_deviation"] = theory.kernel_deviation;
  out["samples"] = samples;
  out["bound"] = bound;
  out["square_bound"] = square;
  out["heads_needed"] = needed;
  out["predicted_error"] = predicted;
  out["ridge"] = ridge;
  return out;
}

}  // namespace

void bind_theory(nb::module_& m) { m.def("theory", &evaluate, nb::arg("options"), nb::arg("settings")); }

}  // namespace headlens::python

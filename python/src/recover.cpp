// Recovery: the layer and the certificate, in the words of `headlens recover --json`.
#include "headlens/recover.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "arrays.hpp"
#include "bindings.hpp"
#include "call.hpp"

namespace headlens::python {
namespace {

nb::dict carving_dict(const Carving& c) {
  nb::dict out;
  out["accepted_rows"] = c.accepted_rows;
  out["tolerance"] = c.tolerance;
  out["slabs"] = c.slabs;
  out["half_spaces"] = c.half_spaces;
  out["outliers"] = c.outliers;
  out["body_width"] = c.body_width;
  out["minimum_norm"] = c.minimum_norm;
  return out;
}

nb::dict sculpt_dict(const SculptReport& r) {
  nb::dict seconds, out;
  seconds["sum"] = r.seconds.sum;
  seconds["carve"] = r.seconds.carve;
  seconds["refine"] = r.seconds.refine;
  seconds["carve_again"] = r.seconds.carve_again;
  seconds["span"] = r.seconds.span;
  seconds["net"] = r.seconds.net;
  seconds["polish"] = r.seconds.polish;
  out["carve"] = carving_dict(r.rough);
  out["refinement"] = r.refinement;
  out["sum_change"] = r.sum_change;
  out["carve_again"] = carving_dict(r.fine);
  out["widths"] = r.widths;
  out["eigengap"] = r.eigengap;
  out["span_dimension"] = r.span_dimension;
  out["rounds"] = r.rounds;
  out["net_size"] = r.net_size;
  out["net_error"] = r.net_error;
  out["polished_error"] = r.polished_error;
  out["polish_distance"] = r.polish_distance;
  out["seconds"] = seconds;
  return out;
}

// Each method has its own evidence.
nb::dict parity_dict(const ParityReport& r) {
  nb::dict out;
  out["set"] = r.set;
  out["sharpness"] = r.sharpness;
  out["sharpness_determined"] = r.sharpness_determined;
  out["active_examples"] = r.active_examples;
  out["spare_bits"] = r.spare_bits;
  out["steps"] = r.steps;
  if (r.candidates > 0) {
    out["candidates"] = r.candidates;
    out["tried"] = r.tried;
    out["correlation"] = r.correlation;
    out["next_correlation"] = r.next_correlation;
  } else {
    out["equations"] = r.equations;
    out["rank"] = r.rank;
    out["violated"] = r.violated;
  }
  return out;
}

nb::dict best_fit_dict(const BestFitReport& r) {
  nb::dict out;
  out["repeats"] = r.repeats;
  out["noise_floor"] = r.noise_floor;
  out["excess_error"] = r.excess_error;
  out["excess_interval"] =
      r.excess_low ? nb::cast(std::vector<double>{*r.excess_low, *r.excess_high}) : nb::none();
  return out;
}

nb::list trial_list(const Certificate& c) {
  nb::list out;
  for (const HeadCountTrial& trial : c.trials) {
    nb::dict entry;
    entry["heads"] = trial.heads;
    entry["train_error"] = trial.train_error;
    entry["held_out_error"] = trial.held_out_error;
    out.append(entry);
  }
  return out;
}

nb::list head_list(const Certificate& c) {
  nb::list out;
  for (const HeadReport& head : c.per_head) {
    nb::dict entry;
    entry["scale"] = head.scale;
    entry["effective_rank"] = head.effective_rank;
    entry["w_norm"] = head.w_norm;
    entry["theta_error_bar"] = head.theta_bar;
    entry["w_error_bar"] = head.w_bar;
    entry["mean_pooling"] = head.mean_pooling;
    out.append(entry);
  }
  return out;
}

nb::list trace_list(const Certificate& c) {
  nb::list out;
  for (const TracePoint& point : c.trace) {
    nb::dict entry;
    entry["phase"] = point.phase;
    entry["heads"] = point.heads;
    entry["step"] = point.step;
    entry["seconds"] = point.seconds;
    entry["train_error"] = point.train_error;
    entry["held_out_error"] = point.held_out_error;
    out.append(entry);
  }
  return out;
}

nb::dict certificate_dict(const Certificate& c) {
  nb::dict out, phases;
  for (const Phase& phase : c.phases) phases[nb::str(phase.name.c_str())] = phase.seconds;
  out["status"] = name(c.status);
  out["reason"] = c.reason;
  out["advice"] = c.advice;
  out["heads_in_doubt"] = c.heads_in_doubt;
  out["unseen_directions"] = c.unseen_directions;
  out["heads"] = c.heads;
  out["held_out_error"] = c.held_out_error;
  out["train_error"] = c.train_error;
  out["examples"] = c.examples;
  out["held_out"] = c.held_out;
  out["examples_per_unknown"] = c.examples_per_unknown;
  out["residual_z"] = c.residual_z;
  out["noise"] = c.noise;
  out["smallest_singular_value"] = c.smallest_singular_value;
  out["weakest_direction"] = c.weakest_shares;
  out["head_count_evidence"] = trial_list(c);
  out["moment_singular_values"] = c.moment_values;
  out["per_head"] = head_list(c);
  out["starts"] = c.starts;
  out["steps"] = c.steps;
  out["inner_steps"] = c.inner_steps;
  out["sculpt"] = c.sculpt ? nb::object(sculpt_dict(*c.sculpt)) : nb::object(nb::none());
  out["parity"] = c.parity ? nb::object(parity_dict(*c.parity)) : nb::object(nb::none());
  out["best_fit"] = c.best_fit ? nb::object(best_fit_dict(*c.best_fit)) : nb::object(nb::none());
  out["phases"] = phases;
  out["trace"] = trace_list(c);
  out["backend"] = c.backend;
  out["seconds"] = c.seconds;
  return out;
}

nb::tuple recover_layer(const AnyArray& x, const AnyArray& y, const RecoverOptions& options,
                        const Settings& settings) {
  const Array tokens = borrow(x), labels = borrow(y);
  Recovery result = call(settings, [&](const Execution& execution) {
    options.validate();
    return recover(make_examples(tokens, labels), options, execution);
  });
  const nb::object layer = result.layer ? nb::cast(std::move(*result.layer)) : nb::none();
  const nb::object best = result.best ? nb::cast(std::move(*result.best)) : nb::none();
  const nb::object span = result.sculpt_span ? to_numpy(std::move(*result.sculpt_span)) : nb::none();
  return nb::make_tuple(layer, certificate_dict(result.certificate), span, best);
}

}  // namespace

void bind_recover(nb::module_& m) {
  m.def("recover", &recover_layer, nb::arg("x"), nb::arg("y"), nb::arg("options"), nb::arg("settings"));
}

}  // namespace headlens::python

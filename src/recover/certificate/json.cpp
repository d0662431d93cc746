#include <nlohmann/json.hpp>

#include "headlens/certificate.hpp"

namespace headlens {
namespace {

using Json = nlohmann::ordered_json;

Json optional_json(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json carving_json(const Carving& c) {
  return {{"accepted_rows", c.accepted_rows}, {"tolerance", c.tolerance}, {"slabs", c.slabs},
          {"half_spaces", c.half_spaces},     {"outliers", c.outliers},   {"body_width", c.body_width},
          {"minimum_norm", c.minimum_norm}};
}

Json sculpt_json(const SculptReport& r) {
  const SculptReport::Seconds& s = r.seconds;
  return {{"carve", carving_json(r.rough)},
          {"refinement", r.refinement},
          {"sum_change", r.sum_change},
          {"carve_again", carving_json(r.fine)},
          {"widths", r.widths},
          {"eigengap", r.eigengap},
          {"span_dimension", r.span_dimension},
          {"rounds", r.rounds},
          {"net_size", r.net_size},
          {"net_error", r.net_error},
          {"polished_tuples", r.polished_tuples},
          {"polished_error", optional_json(r.polished_error)},
          {"polish_distance", optional_json(r.polish_distance)},
          {"seconds",
           {{"sum", s.sum},
            {"carve", s.carve},
            {"refine", s.refine},
            {"carve_again", s.carve_again},
            {"span", s.span},
            {"net", s.net},
            {"polish", s.polish}}}};
}

Json parity_json(const ParityReport& report) {
  Json out{{"set", report.set},
           {"sharpness", report.sharpness},
           {"sharpness_determined", report.sharpness_determined},
           {"active_examples", report.active_examples},
           {"spare_bits", report.spare_bits},
           {"steps", report.steps}};
  if (report.candidates > 0) {
    out["candidates"] = report.candidates;
    out["tried"] = report.tried;
    out["correlation"] = report.correlation;
    out["next_correlation"] = report.next_correlation;
  } else {
    out["equations"] = report.equations;
    out["rank"] = report.rank;
    out["violated"] = report.violated;
  }
  return out;
}

Json best_fit_json(const BestFitReport& report) {
  return {{"repeats", report.repeats},
          {"noise_floor", optional_json(report.noise_floor)},
          {"excess_error", optional_json(report.excess_error)},
          {"excess_interval",
           report.excess_low ? Json::array({*report.excess_low, *report.excess_high}) : Json(nullptr)}};
}

Json trials_json(const Certificate& c) {
  Json out = Json::array();
  for (const HeadCountTrial& trial : c.trials)
    out.push_back({{"heads", trial.heads},
                   {"train_error", trial.train_error},
                   {"held_out_error", trial.held_out_error}});
  return out;
}

Json variants_json(const Certificate& c) {
  Json out = Json::array();
  for (const VariantTrial& trial : c.variant_trials)
    out.push_back({{"variant", name(trial.variant)}, {"held_out_error", trial.held_out_error}});
  return out;
}

Json outliers_json(const Certificate& c) {
  Json out = Json::array();
  for (const Outlier& each : c.outliers) out.push_back({each.example, each.token, each.output});
  return out;
}

Json heads_json(const Certificate& c) {
  Json out = Json::array();
  for (const HeadReport& head : c.per_head)
    out.push_back({{"scale", head.scale},
                   {"effective_rank", head.effective_rank},
                   {"w_norm", head.w_norm},
                   {"theta_error_bar", head.theta_bar},
                   {"w_error_bar", head.w_bar},
                   {"theta_rank", head.theta_rank ? Json(*head.theta_rank) : Json(nullptr)},
                   {"w_rank", head.w_rank ? Json(*head.w_rank) : Json(nullptr)},
                   {"mean_pooling", head.mean_pooling}});
  return out;
}

Json trace_json(const Certificate& c) {
  Json out = Json::array();
  for (const TracePoint& point : c.trace)
    out.push_back({{"phase", point.phase},
                   {"heads", point.heads},
                   {"step", point.step},
                   {"seconds", point.seconds},
                   {"train_error", point.train_error},
                   {"held_out_error", optional_json(point.held_out_error)}});
  return out;
}

Json phases_json(const Certificate& c) {
  Json out = Json::object();
  for (const Phase& phase : c.phases) out[phase.name] = phase.seconds;
  return out;
}

}  // namespace

std::string to_json(const Certificate& c) {
  const Json out{{"status", name(c.status)},
                 {"variant", name(c.variant)},
                 {"variant_evidence", variants_json(c)},
                 {"span_dimension", c.span_dimension ? Json(*c.span_dimension) : Json(nullptr)},
                 {"reason", c.reason},
                 {"advice", c.advice.spelled(on_command_line)},
                 {"heads_in_doubt", c.heads_in_doubt},
                 {"unseen_directions", c.unseen_directions},
                 {"heads", c.heads},
                 {"held_out_error", c.held_out > 0 ? Json(c.held_out_error) : Json(nullptr)},
                 {"train_error", c.train_error},
                 {"examples", c.examples},
                 {"held_out", c.held_out},
                 {"missing_labels", c.missing_labels},
                 {"outliers", outliers_json(c)},
                 {"examples_per_unknown", c.examples_per_unknown},
                 {"residual_z", optional_json(c.residual_z)},
                 {"noise", optional_json(c.noise)},
                 {"smallest_singular_value", optional_json(c.smallest_singular_value)},
                 {"weakest_direction", c.weakest_shares},
                 {"head_count_evidence", trials_json(c)},
                 {"moment_singular_values", c.moment_values},
                 {"per_head", heads_json(c)},
                 {"starts", c.starts},
                 {"steps", c.steps},
                 {"inner_steps", c.inner_steps},
                 {"sculpt", c.sculpt ? sculpt_json(*c.sculpt) : Json(nullptr)},
                 {"parity", c.parity ? parity_json(*c.parity) : Json(nullptr)},
                 {"best_fit", c.best_fit ? best_fit_json(*c.best_fit) : Json(nullptr)},
                 {"phases", phases_json(c)},
                 {"trace", trace_json(c)},
                 {"backend", c.backend},
                 {"seconds", c.seconds}};
  return out.dump(2);
}

}  // namespace headlens

// A refit as JSON and in words.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "headlens/refit.hpp"

namespace headlens {
namespace {

using Json = nlohmann::ordered_json;

void add_shape(const RefitShape& shape, Json& out) {
  out["heads"] = shape.heads;
  out["rank"] = shape.rank;
  out["value_rank"] = shape.value_rank;
  out["kv_groups"] = shape.kv_groups;
  out["parameters"] = shape.parameters;
}

Json rows_json(const Refit& refit) {
  Json out = Json::array();
  for (const RefitRow& row : refit.rows) {
    Json one{{"name", row.name}};
    add_shape(row.shape, one);
    one["held_out_error"] = row.held_out_error;
    one["wanted"] = row.wanted;
    one["on_front"] = row.on_front;
    out.push_back(one);
  }
  return out;
}

Json trace_json(const Refit& refit) {
  Json out = Json::array();
  for (const TracePoint& point : refit.trace)
    out.push_back({{"phase", point.phase},
                   {"step", point.step},
                   {"seconds", point.seconds},
                   {"train_error", point.train_error}});
  return out;
}

// The best row that looked at weights alone and has the shape of the refit.
const RefitRow* rival(const Refit& refit) {
  const RefitRow* best = nullptr;
  for (const RefitRow& row : refit.rows)
    if (row.wanted && row.name != "refit" && row.name != "layer" &&
        (!best || row.held_out_error < best->held_out_error))
      best = &row;
  return best;
}

std::string shape_words(const RefitShape& shape) {
  std::string out = fmt::format("{} heads of rank {}", shape.heads, shape.rank);
  if (shape.value_rank != shape.rank) out += fmt::format(" ({} of W)", shape.value_rank);
  if (shape.kv_groups < shape.heads) out += fmt::format(", {} groups of keys and values", shape.kv_groups);
  return out;
}

}  // namespace

std::string to_json(const Refit& refit) {
  Json out{{"status", name(refit.status)}};
  add_shape(refit.shape, out);
  out["held_out_error"] = refit.held_out_error;
  out["train_error"] = refit.train_error;
  out["examples"] = refit.examples;
  out["held_out"] = refit.held_out;
  out["tokens"] = refit.tokens;
  out["start"] = refit.start;
  out["pareto"] = rows_json(refit);
  Json phases = Json::object();
  for (const Phase& phase : refit.phases) phases[phase.name] = phase.seconds;
  out["phases"] = phases;
  out["trace"] = trace_json(refit);
  out["seconds"] = refit.seconds;
  return out.dump(2);
}

std::string in_words(const Refit& refit) {
  std::string out = fmt::format(
      "status          {}\nlayer           {}: {} parameters\n"
      "held-out error  {:.3g} (on {} of {} examples of {} tokens; training {:.3g})\n",
      name(refit.status), shape_words(refit.shape), refit.shape.parameters, refit.held_out_error,
      refit.held_out, refit.examples, refit.tokens, refit.train_error);
  if (!refit.start.empty()) out += fmt::format("began with      {}\n", refit.start);
  if (const RefitRow* row = rival(refit))
    out += fmt::format("The error of {} is {:.3g} times that of the refit, with as many parameters.\n",
                       row->name, row->held_out_error / std::max(refit.held_out_error, 1e-300));
  out += fmt::format("\n{:>12}  {:>14}  {:>5}   {}", "parameters", "held-out error", "front", "way");
  for (const RefitRow& row : refit.rows)
    out += fmt::format("\n{:>12}  {:>14.3g}  {:>5}   {}", row.shape.parameters, row.held_out_error,
                       row.on_front ? "*" : "", row.name);
  return out;
}

}  // namespace headlens

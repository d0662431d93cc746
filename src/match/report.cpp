// A match as JSON and in words.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "headlens/match.hpp"

namespace headlens {
namespace {

using Json = nlohmann::ordered_json;

Json head_json(const MatchedHead& head) {
  const auto index = [](const std::optional<Index>& value) { return value ? Json(*value) : Json(nullptr); };
  Json out{{"layer_a", head.layer_a},
           {"layer_b", head.layer_b},
           {"a", head.a},
           {"b", head.b},
           {"distance", head.distance},
           {"theta_distance", head.theta_distance},
           {"w_distance", head.w_distance},
           {"theta_overlap", head.theta_overlap},
           {"w_overlap", head.w_overlap},
           {"rival_layer", index(head.rival_layer)},
           {"rival", index(head.rival)}};
  out["rival_distance"] = head.rival ? Json(head.rival_distance) : Json(nullptr);
  out["margin"] = head.rival ? Json(head.rival_distance - head.distance) : Json(nullptr);
  out["closer"] = head.closer;
  return out;
}

Json places_json(const std::vector<std::pair<Index, Index>>& places) {
  Json out = Json::array();
  for (const auto& [layer, head] : places) out.push_back({{"layer", layer}, {"head", head}});
  return out;
}

// "3" of one layer, "1.3" of several: layer and head.
std::string place(const Match& match, Index layer, Index head) {
  return match.layers.size() > 1 || !match.table.empty() ? fmt::format("{}.{}", layer, head)
                                                         : fmt::format("{}", head);
}

std::string why_heads(const Match& match) {
  const std::size_t count = match.heads.size();
  if (match.verdict == MatchVerdict::same)
    return fmt::format(
        "B has the heads of A, up to their order and their bases: no distance is above {:.2g}.",
        match.worst_distance);
  std::string text = fmt::format("{} of {} matched pairs are more alike than any two heads of one layer",
                                 match.closer, count);
  if (match.null == MatchNull::rotations)
    text = fmt::format(
        "the overlaps of {} pairs are compared with those of heads turned at random, for so few heads "
        "say nothing about each other",
        count);
  if (match.verdict == MatchVerdict::unrelated) return text + "; that is what unrelated layers show.";
  text += "; unrelated layers would not show that.";
  if (match.moved.empty())
    return text + fmt::format(
                      " All heads changed about as much (median {:.2g}); rounding to bfloat16 leaves about "
                      "3e-3, to int8 about 1e-2.",
                      match.median_distance);
  text += " Changed most:";
  for (std::size_t i = 0; i < match.moved.size() && i < 8; ++i) {
    const MatchedHead& head = match.heads[static_cast<std::size_t>(match.moved[i])];
    text += fmt::format("{} head {} of A ({:.2g})", i ? "," : "", place(match, head.layer_a, head.a),
                        head.distance);
  }
  if (match.moved.size() > 8) text += fmt::format(" and {} more", match.moved.size() - 8);
  return text + fmt::format("; the median is {:.2g}.", match.median_distance);
}

std::string why(const Match& match) {
  if (std::ranges::none_of(match.layers, &MatchedLayer::other_mask)) return why_heads(match);
  const std::string mask = "one layer has a causal mask, and the other has none.";
  if (match.worst_distance <= kSameDistance && match.unmatched_a.empty() && match.unmatched_b.empty())
    return "B has the heads of A, up to their order and their bases, but " + mask;
  return why_heads(match) + " Besides, " + mask;
}

std::string heads_text(const Match& match) {
  std::string text = fmt::format("\n{:>6} {:>6} {:>10} {:>10} {:>10} {:>9} {:>9} {:>7} {:>8}", "A", "B",
                                 "distance", "of Theta", "of W", "overlap", "of W", "rival", "margin");
  for (const MatchedHead& head : match.heads) {
    text += fmt::format("\n{:>6} {:>6} {:>10.2e} {:>10.2e} {:>10.2e} {:>9.4f} {:>9.4f}",
                        place(match, head.layer_a, head.a), place(match, head.layer_b, head.b), head.distance,
                        head.theta_distance, head.w_distance, head.theta_overlap, head.w_overlap);
    if (head.rival)
      text += fmt::format(" {:>7} {:>8.3f}", place(match, *head.rival_layer, *head.rival),
                          head.rival_distance - head.distance);
  }
  return text;
}

std::string layers_text(const Match& match) {
  std::string text = fmt::format("\n\n{:>10} {:>14} {:>13} {:>9}   {}", "verdict", "worst distance",
                                 "mean overlap", "p-value", "layers of A and B");
  for (const MatchedLayer& layer : match.layers)
    text += fmt::format("\n{:>10} {:>14.2e} {:>13.4f} {:>9.2g}   {} ~ {}", name(layer.verdict),
                        layer.worst_distance, layer.mean_overlap, layer.p_value, layer.a, layer.b);
  return text;
}

std::string table_text(const Match& match) {
  std::string text = "\n\nmean overlap, layers of A down and of B across";
  for (const std::vector<double>& row : match.table) {
    text += "\n";
    for (const double value : row) text += fmt::format(" {:6.3f}", value);
  }
  return text;
}

}  // namespace

std::string to_json(const Match& match) {
  Json heads = Json::array(), layers = Json::array();
  for (const MatchedHead& head : match.heads) heads.push_back(head_json(head));
  for (const MatchedLayer& layer : match.layers)
    layers.push_back({{"a", layer.a},
                      {"b", layer.b},
                      {"verdict", name(layer.verdict)},
                      {"worst_distance", layer.worst_distance},
                      {"mean_overlap", layer.mean_overlap},
                      {"p_value", layer.p_value},
                      {"constant_distance", layer.constant_distance}});
  return Json{{"verdict", name(match.verdict)},
              {"explanation", why(match)},
              {"p_value", match.p_value},
              {"null", name(match.null)},
              {"worst_distance", match.worst_distance},
              {"median_distance", match.median_distance},
              {"closer", match.closer},
              {"within_overlap", match.within_overlap},
              {"heads", heads},
              {"moved", match.moved},
              {"unmatched_a", places_json(match.unmatched_a)},
              {"unmatched_b", places_json(match.unmatched_b)},
              {"layers", layers},
              {"table", match.table}}
      .dump(2);
}

std::string in_words(const Match& match) {
  std::string text = fmt::format("verdict  {} (p = {:.2g}, against {})\n{}\n", name(match.verdict),
                                 match.p_value, name(match.null), why(match));
  text += heads_text(match);
  const auto list = [&](const std::vector<std::pair<Index, Index>>& places, const char* whose) {
    if (places.empty()) return;
    text += fmt::format("\nheads of {} without a partner:", whose);
    for (const auto& [layer, head] : places) text += fmt::format(" {}", place(match, layer, head));
  };
  list(match.unmatched_a, "A");
  list(match.unmatched_b, "B");
  if (match.layers.size() > 1) text += layers_text(match);
  if (!match.table.empty()) text += table_text(match);
  return text;
}

}  // namespace headlens

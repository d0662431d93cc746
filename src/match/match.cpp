// Layers -> forms -> overlaps of all pairs -> assignment -> distances -> verdict; start reading here.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "attention/assignment.hpp"
#include "base/parallel.hpp"
#include "headlens/error.hpp"
#include "match/overlaps.hpp"
#include "match/units.hpp"
#include "match/verdict.hpp"

namespace headlens {
namespace {

using matching::Forms;
using matching::judge;
using matching::make_forms;
using matching::Overlaps;
using matching::relative;
using matching::summarise;
using matching::Totals;
using matching::Within;
using HeadPlace = std::pair<Index, Index>;  // layer and head

// One group of heads of A is matched to one group of heads of B: a layer to a layer, or all to all.
struct Group {
  std::vector<Index> layers_a, layers_b;
};

struct Problem {
  const std::vector<LayerHeads>&a, &b;
  std::vector<Forms> forms_a, forms_b;
  std::vector<std::vector<Overlaps>> overlaps;  // [layer of A][layer of B]; empty where not asked for
  int threads;
};

std::vector<HeadPlace> list_heads(const std::vector<LayerHeads>& layers, const std::vector<Index>& chosen) {
  std::vector<HeadPlace> out;
  for (const Index layer : chosen)
    for (Index i = 0; i < layers[static_cast<std::size_t>(layer)].heads(); ++i) out.emplace_back(layer, i);
  return out;
}

const Overlaps& overlaps_of(const Problem& p, Index layer_a, Index layer_b) {
  return p.overlaps[static_cast<std::size_t>(layer_a)][static_cast<std::size_t>(layer_b)];
}

MatchedHead measure(const Problem& p, HeadPlace a, HeadPlace b) {
  const Forms &x = p.forms_a[static_cast<std::size_t>(a.first)],
              &y = p.forms_b[static_cast<std::size_t>(b.first)];
  const auto i = static_cast<std::size_t>(a.second), j = static_cast<std::size_t>(b.second);
  const Overlaps& o = overlaps_of(p, a.first, b.first);
  MatchedHead out{a.first, b.first, a.second, b.second};
  out.theta_distance = relative(matching::difference(x.theta, a.second, y.theta, b.second), x.theta_norms[i],
                                y.theta_norms[j]);
  out.w_distance = relative(matching::difference(x.w, a.second, y.w, b.second), x.w_norms[i], y.w_norms[j]);
  require(std::isfinite(out.theta_distance) && std::isfinite(out.w_distance), "match: the distance of head ",
          a.second, " of A and head ", b.second, " of B overflows; divide the weights of both by one number");
  out.distance = std::max(out.theta_distance, out.w_distance);
  out.theta_overlap = o.theta(a.second, b.second);
  out.w_overlap = o.w(a.second, b.second);
  return out;
}

// The next nearest head of B, by the sum of both distances; then by the larger of them, as `distance` is.
void find_rival(const Problem& p, const std::vector<HeadPlace>& all_b, MatchedHead& match) {
  double least = std::numeric_limits<double>::infinity();
  std::optional<HeadPlace> best;
  for (const auto& [layer, head] : all_b) {
    if (layer == match.layer_b && head == match.b) continue;
    const double cost = overlaps_of(p, match.layer_a, layer).cost(match.a, head);
    if (cost < least) least = cost, best = {layer, head};
  }
  if (!best) return;
  const MatchedHead rival = measure(p, {match.layer_a, match.a}, *best);
  match.rival_layer = best->first, match.rival = best->second, match.rival_distance = rival.distance;
}

void match_group(const Problem& p, const Group& group, Match& out) {
  const auto heads_a = list_heads(p.a, group.layers_a), heads_b = list_heads(p.b, group.layers_b);
  const bool swap = heads_a.size() > heads_b.size();  // the assignment gives every row a column
  const auto &rows = swap ? heads_b : heads_a, &columns = swap ? heads_a : heads_b;
  std::vector<std::vector<double>> cost(rows.size(), std::vector<double>(columns.size()));
  for (std::size_t r = 0; r < rows.size(); ++r)
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const auto &a = swap ? columns[c] : rows[r], &b = swap ? rows[r] : columns[c];
      cost[r][c] = overlaps_of(p, a.first, b.first).cost(a.second, b.second);
    }
  const std::vector<Index> column_of = assign(cost);
  std::vector<MatchedHead> found(rows.size());
  parallel_for(p.threads, static_cast<Index>(rows.size()), [&](Index r, int) {
    const auto row = rows[static_cast<std::size_t>(r)],
               column = columns[static_cast<std::size_t>(column_of[static_cast<std::size_t>(r)])];
    MatchedHead& match = found[static_cast<std::size_t>(r)] =
        swap ? measure(p, column, row) : measure(p, row, column);
    find_rival(p, heads_b, match);
  });
  std::ranges::sort(found, {}, [](const MatchedHead& h) { return std::pair(h.layer_a, h.a); });
  std::vector<bool> used(columns.size(), false);
  for (const Index c : column_of) used[static_cast<std::size_t>(c)] = true;
  for (std::size_t c = 0; c < columns.size(); ++c)
    if (!used[c]) (swap ? out.unmatched_a : out.unmatched_b).push_back(columns[c]);
  out.heads.insert(out.heads.end(), found.begin(), found.end());
}

void match_layer(Problem& p, Index layer, Match& out, Totals& totals) {
  const auto l = static_cast<std::size_t>(layer);
  Match own;
  match_group(p, {{layer}, {layer}}, own);
  Within within;
  within.add(find_overlaps(p.forms_a[l], p.forms_a[l], p.threads));
  within.add(find_overlaps(p.forms_b[l], p.forms_b[l], p.threads));
  const double rivals = static_cast<double>(p.b[l].heads());
  out.layers.push_back(summarise(p.a[l], p.b[l], own.heads, judge(own.heads, rivals, within, p.a[l])));
  totals.within.add(within);
  totals.rivals += rivals * static_cast<double>(own.heads.size());
  out.heads.insert(out.heads.end(), own.heads.begin(), own.heads.end());
  out.unmatched_a.insert(out.unmatched_a.end(), own.unmatched_a.begin(), own.unmatched_a.end());
  out.unmatched_b.insert(out.unmatched_b.end(), own.unmatched_b.begin(), own.unmatched_b.end());
}

// Layer by layer, with the forms of one pair of layers in memory at a time.
void match_in_order(Problem& p, bool dense_theta, bool dense_w, const Execution& execution, Match& out,
                    Totals& totals) {
  require(p.a.size() == p.b.size(), "match: A has ", p.a.size(), " layers and B has ", p.b.size(),
          "; layers are matched in their order, or to any other with ", option("across"));
  for (std::size_t l = 0; l < p.a.size(); ++l) {
    execution.report("match", static_cast<double>(l), static_cast<double>(p.a.size()));
    p.forms_a[l] = make_forms(p.a[l], dense_theta, dense_w, p.threads);
    p.forms_b[l] = make_forms(p.b[l], dense_theta, dense_w, p.threads);
    p.overlaps[l][l] = find_overlaps(p.forms_a[l], p.forms_b[l], p.threads);
    match_layer(p, static_cast<Index>(l), out, totals);
    p.forms_a[l] = {};
    p.forms_b[l] = {};
  }
}

// Mean overlap of the best assignment of two layers.
double table_entry(const Problem& p, Index a, Index b) {
  const Overlaps& o = overlaps_of(p, a, b);
  const bool swap = o.cost.rows() > o.cost.cols();
  const Index rows = std::min(o.cost.rows(), o.cost.cols()), columns = std::max(o.cost.rows(), o.cost.cols());
  std::vector<std::vector<double>> cost(static_cast<std::size_t>(rows),
                                        std::vector<double>(static_cast<std::size_t>(columns)));
  for (Index i = 0; i < rows; ++i)
    for (Index j = 0; j < columns; ++j)
      cost[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)] = swap ? o.cost(j, i) : o.cost(i, j);
  const std::vector<Index> column_of = assign(cost);
  double sum = 0;
  for (Index i = 0; i < rows; ++i) {
    const Index j = column_of[static_cast<std::size_t>(i)];
    sum += swap ? o.mean(j, i) : o.mean(i, j);
  }
  return sum / static_cast<double>(rows);
}

// The layer of B that most heads of a layer of A went to.
Index partner_of(const std::vector<MatchedHead>& heads) {
  std::map<Index, Index> votes;
  for (const MatchedHead& head : heads) ++votes[head.layer_b];
  return std::ranges::max_element(votes, {}, [](const auto& vote) { return vote.second; })->first;
}

void match_across(Problem& p, bool dense_theta, bool dense_w, const Execution& execution, Match& out,
                  Totals& totals) {
  Group all;
  for (std::size_t l = 0; l < p.a.size(); ++l) {
    p.forms_a[l] = make_forms(p.a[l], dense_theta, dense_w, p.threads);
    totals.within.add(find_overlaps(p.forms_a[l], p.forms_a[l], p.threads));
    all.layers_a.push_back(static_cast<Index>(l));
  }
  for (std::size_t l = 0; l < p.b.size(); ++l) {
    p.forms_b[l] = make_forms(p.b[l], dense_theta, dense_w, p.threads);
    totals.within.add(find_overlaps(p.forms_b[l], p.forms_b[l], p.threads));
    all.layers_b.push_back(static_cast<Index>(l));
  }
  for (std::size_t i = 0; i < p.a.size(); ++i) {
    out.table.emplace_back();
    for (std::size_t j = 0; j < p.b.size(); ++j) {
      execution.report("match", static_cast<double>(i * p.b.size() + j),
                       static_cast<double>(p.a.size() * p.b.size()));
      p.overlaps[i][j] = find_overlaps(p.forms_a[i], p.forms_b[j], p.threads);
      out.table.back().push_back(table_entry(p, static_cast<Index>(i), static_cast<Index>(j)));
    }
  }
  match_group(p, all, out);
  const double rivals = static_cast<double>(list_heads(p.b, all.layers_b).size());
  totals.rivals = rivals * static_cast<double>(out.heads.size());
  for (const Index layer : all.layers_a) {
    std::vector<MatchedHead> own;
    std::ranges::copy_if(out.heads, std::back_inserter(own),
                         [&](const MatchedHead& h) { return h.layer_a == layer; });
    if (own.empty()) continue;
    const LayerHeads& a = p.a[static_cast<std::size_t>(layer)];
    out.layers.push_back(summarise(a, p.b[static_cast<std::size_t>(partner_of(own))], own,
                                   judge(own, rivals, totals.within, a)));
  }
}

void check_layers(const std::vector<LayerHeads>& a, const std::vector<LayerHeads>& b) {
  require(!a.empty() && !b.empty(), "match: no layers given");
  const LayerHeads& first = a.front();
  for (const std::vector<LayerHeads>* layers : {&a, &b})
    for (const LayerHeads& layer : *layers) {
      require(layer.dim() == first.dim() && layer.outputs() == first.outputs(), "match: ", first.name,
              " has (d, e) = (", first.dim(), ", ", first.outputs(), ") and ", layer.name, " has (",
              layer.dim(), ", ", layer.outputs(),
              "); heads are compared as matrices of the same tokens and outputs");
      require(layer.rotary.has_value() == first.rotary.has_value(),
              "match: ", first.rotary ? layer.name : first.name, " has no rotary positions, and ",
              first.rotary ? first.name : layer.name, " has");
      require(!layer.rotary || layer.rotary->base == first.rotary->base, "match: ", first.name,
              " has the rotary base ", first.rotary ? first.rotary->base : 0, " and ", layer.name, " has ",
              layer.rotary ? layer.rotary->base : 0, ": equal queries and keys are different heads there");
      const auto pairs = [](const LayerHeads& of) { return of.rotary ? of.rotary->pairs(of.q.dim(2)) : 0; };
      require(pairs(layer) == pairs(first), "match: rotary positions turn ", pairs(first),
              " pairs of columns in ", first.name, " and ", pairs(layer), " in ", layer.name,
              ": their frequencies differ, so that no head of one is a head of the other");
    }
}

}  // namespace

Match match_heads(const std::vector<LayerHeads>& a, const std::vector<LayerHeads>& b,
                  const MatchOptions& options, const Execution& execution) {
  const Heed heed(execution);
  check_layers(a, b);
  if (const matching::Units units = matching::units_of(a, b); units.tiny())
    return match_heads(in_units(a, units), in_units(b, units), options, execution);
  bool dense_theta = false, dense_w = false;
  for (const std::vector<LayerHeads>* layers : {&a, &b})
    for (const LayerHeads& layer : *layers) dense_theta |= layer.k.empty(), dense_w |= layer.o.empty();
  Problem problem{a, b, {}, {}, {}, thread_count(execution)};
  problem.forms_a.resize(a.size());
  problem.forms_b.resize(b.size());
  for (std::size_t i = 0; i < a.size(); ++i) problem.overlaps.emplace_back(b.size());
  Match out;
  Totals totals;
  (options.across ? match_across : match_in_order)(problem, dense_theta, dense_w, execution, out, totals);
  matching::conclude(a.front(), totals, out);
  return out;
}

}  // namespace headlens

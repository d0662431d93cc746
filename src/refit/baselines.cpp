#include "refit/baselines.hpp"

#include <algorithm>
#include <utility>

#include "headlens/error.hpp"
#include "headlens/options.hpp"
#include "refit/starts.hpp"

namespace headlens::refitting {
namespace {

Index widest(const TiedShape& shape) { return std::max(shape.rank, shape.value_rank); }

std::string both(const std::string& a, const std::string& b) { return a.empty() ? b : a + ", " + b; }

// Pruning, truncation and averaging, as far as the target asks for each.
Smaller all_by_weights(const TiedLayer& layer, const Target& target) {
  Smaller out{"", copy_of(layer), true};
  if (target.heads < layer.shape.heads)
    out.layer = prune(out.layer, target.heads), out.name = "magnitude pruning";
  if (target.rank < widest(layer.shape))
    out.layer = truncate(out.layer, target.rank), out.name = both(out.name, "SVD truncation");
  if (target.groups < target.heads)
    out.layer = pool(out.layer, target.groups), out.name = both(out.name, "mean-pooled groups");
  return out;
}

}  // namespace

void check_groups(const TiedShape& shape) {
  require(shape.heads % shape.groups == 0, option("kv-groups"), ": ", shape.groups, " given, which ",
          shape.heads, " heads cannot share equally");
}

Target target_of(const TiedShape& layer, const RefitOptions& options) {
  Target out{options.heads.value_or(layer.heads), options.rank.value_or(widest(layer)), 0};
  out.groups = options.kv_groups.value_or(out.heads);
  require(out.heads <= layer.heads, option("heads"), ": ", out.heads, " given, but the layer has ",
          layer.heads, " heads");
  require(out.rank <= widest(layer), option("rank"), ": ", out.rank, " given, but the heads have rank ",
          widest(layer));
  require(
      !layer.rotary || out.rank == widest(layer), option("rank"),
      ": given for a layer with rotary positions, whose frequencies depend on the rank; leave the rank as it "
      "is");
  TiedShape wanted = layer;
  wanted.heads = out.heads, wanted.groups = out.groups;
  check_groups(wanted);
  return out;
}

std::vector<Smaller> baselines(const TiedLayer& layer, const Target& target) {
  const TiedShape& shape = layer.shape;
  const bool fewer = target.heads < shape.heads, thinner = target.rank < widest(shape),
             shared = target.groups < target.heads;
  std::vector<Smaller> out;
  out.push_back({"layer", copy_of(layer), !fewer && !thinner && !shared});
  const bool alone = fewer + thinner + shared == 1;
  if (fewer) out.push_back({"magnitude pruning", prune(layer, target.heads), alone});
  if (fewer && !shape.rotary) out.push_back({"merged heads", merge(layer, target.heads), alone});
  if (thinner) out.push_back({"SVD truncation", truncate(layer, target.rank), alone});
  if (shared && shape.heads % target.groups == 0)
    out.push_back({"mean-pooled groups", pool(layer, target.groups), alone});
  if (fewer + thinner + shared > 1) out.push_back(all_by_weights(layer, target));
  return out;
}

std::vector<Smaller> starts_for(const TiedLayer& layer, const TiedLayer& white, const Target& target,
                                const Grouping& grouped) {
  std::vector<Smaller> out;
  const bool fewer = target.heads < layer.shape.heads, shared = target.groups < target.heads;
  const auto add = [&](const std::string& name, const TiedLayer& heads) {
    out.push_back({name, share(heads, target.groups, target.rank), true, true});
  };
  const TiedLayer pruned = prune(white, target.heads);
  add(fewer ? "pruned heads" : "truncated factors", pruned);
  if (fewer && !layer.shape.rotary) add("merged heads", merge(white, target.heads));
  if (!shared) return out;
  add("heads that share cheaply", grouped(pruned));
  out.push_back(all_by_weights(layer, target));
  return out;
}

}  // namespace headlens::refitting

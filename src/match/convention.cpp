#include "match/convention.hpp"

#include <cmath>
#include <utility>

#include "headlens/error.hpp"

namespace headlens::matching {
namespace {

Array transposed(const Array& a) {
  Array out(DType::f64, {a.dim(1), a.dim(0)});
  for (Index i = 0; i < a.dim(0); ++i)
    for (Index j = 0; j < a.dim(1); ++j) out.data<double>()[j * a.dim(0) + i] = a.at(i * a.dim(1) + j);
  return out;
}

// Row h r + a of the result is row a m + h of the matrix (out, in), or of a bias (1, out).
Array regrouped_rows(const Array& a, Index m) {
  if (a.empty()) return a;
  const bool bias = a.dim(0) == 1 && a.dim(1) % m == 0;
  const Index rows = bias ? a.dim(1) : a.dim(0), cols = bias ? 1 : a.dim(1), r = rows / m;
  Array out(DType::f64, a.shape());
  for (Index h = 0; h < m; ++h)
    for (Index i = 0; i < r; ++i)
      for (Index c = 0; c < cols; ++c)
        out.data<double>()[(h * r + i) * cols + c] = a.at((i * m + h) * cols + c);
  return out;
}

// Keys and values for every head, those of group h mod g for head h.
Array in_turn(const Array& a, Index m, Index g) {
  if (a.empty()) return a;
  const bool bias = a.dim(0) == 1;
  const Index rows = bias ? a.dim(1) : a.dim(0), cols = bias ? 1 : a.dim(1), r = rows / g;
  Array out(DType::f64, bias ? std::vector<Index>{1, m * r} : std::vector<Index>{m * r, cols});
  for (Index h = 0; h < m; ++h)
    for (Index i = 0; i < r * cols; ++i) out.data<double>()[h * r * cols + i] = a.at(h % g * r * cols + i);
  return out;
}

void scale_by(Array& a, double factor) {
  if (a.empty()) return;
  a = Array::from(a.to_doubles(), a.shape());
  for (Index i = 0; i < a.size(); ++i) a.data<double>()[i] *= factor;
}

double factor_of(LogitScale scale, double r, double d) {
  switch (scale) {
    case LogitScale::none:
      return std::sqrt(r);
    case LogitScale::by_root_of_dim:
      return std::sqrt(r / d);
    case LogitScale::by_rank:
      return 1 / std::sqrt(r);
    default:
      return 1;
  }
}

Index groups_of(const AttentionWeights& w, Index heads) {
  const Index r = w.q.dim(0) / heads;
  return r > 0 ? w.k.dim(0) / r : 0;
}

AttentionWeights changed(AttentionWeights w, const Convention& c, Index m) {
  if (c.storage == Storage::transposed) w.q = transposed(w.q), w.k = transposed(w.k), w.v = transposed(w.v);
  if (c.storage != Storage::as_named) w.o = transposed(w.o);
  const Index g = groups_of(w, m);
  require(g > 0 && w.q.dim(0) % m == 0 && w.k.dim(0) % g == 0 && w.v.dim(0) % g == 0, "shapes");
  if (c.strided_heads) {
    w.q = regrouped_rows(w.q, m), w.bq = regrouped_rows(w.bq, m);
    w.k = regrouped_rows(w.k, g), w.bk = regrouped_rows(w.bk, g);
    w.v = regrouped_rows(w.v, g), w.bv = regrouped_rows(w.bv, g);
    w.o = transposed(regrouped_rows(transposed(w.o), m));
  }
  if (c.groups_in_turn)
    for (Array* array : {&w.k, &w.v, &w.bk, &w.bv}) *array = in_turn(*array, m, g);
  if (c.swapped) {
    require(w.q.shape() == w.k.shape(), "shapes");
    std::swap(w.q, w.k), std::swap(w.bq, w.bk);
  }
  if (c.without_biases) w.bq = w.bk = w.bv = w.bo = Array();
  const double factor = factor_of(c.scale, static_cast<double>(w.q.dim(0)) / static_cast<double>(m),
                                  static_cast<double>(w.q.dim(1)));
  if (factor != 1) scale_by(w.q, factor), scale_by(w.bq, factor);
  return w;
}

LayerHeads swapped_layer(LayerHeads layer) {
  if (!layer.k.empty()) {
    std::swap(layer.q, layer.k);
    return layer;
  }
  const Index m = layer.heads(), d = layer.dim();
  Array theta(DType::f64, layer.q.shape());
  for (Index h = 0; h < m; ++h)
    for (Index i = 0; i < d; ++i)
      for (Index j = 0; j < d; ++j)
        theta.data<double>()[(h * d + j) * d + i] = layer.q.at((h * d + i) * d + j);
  layer.q = std::move(theta);
  return layer;
}

std::vector<Change> rotary_changes(const LayerHeads& layer) {
  std::vector<Change> out;
  if (layer.k.empty() || layer.q.dim(2) % 2 != 0) return out;
  for (const double base : {1e4, 5e5, 1e6})
    for (const RotaryLayout layout : {RotaryLayout::half, RotaryLayout::interleaved}) {
      const Rotary rotary{.base = base, .layout = layout};
      if (layer.rotary != rotary)
        out.push_back({[](Convention& c, const Rotary& r) { c.rotary = r; }, rotary});
    }
  if (layer.rotary) out.push_back({[](Convention& c, const Rotary&) { c.without_rotary = true; }, {}});
  return out;
}

}  // namespace

std::string name(const Convention& c) {
  std::string text;
  const auto add = [&](bool changed, const std::string& words) {
    if (changed) text += (text.empty() ? "" : ", ") + words;
  };
  add(c.mask.has_value(), c.mask == Mask::causal ? "causal mask" : "no mask");
  add(c.ignores_lengths, "padding is seen");
  add(c.rotary.has_value(), c.rotary ? "rotary " + headlens::name(*c.rotary) : "");
  add(c.without_rotary, "no rotary positions");
  add(c.scale == LogitScale::none, "logit scale 1");
  add(c.scale == LogitScale::by_root_of_dim, "logit scale 1/sqrt(d)");
  add(c.scale == LogitScale::by_rank, "logit scale 1/r");
  add(c.without_biases, "without biases");
  add(c.storage == Storage::transposed, "transposed storage");
  add(c.storage == Storage::output_transposed, "transposed storage of the outputs");
  add(c.strided_heads, "head order (r, m)");
  add(c.swapped, "swapped queries and keys");
  add(c.groups_in_turn, "grouped layout h mod g");
  return text.empty() ? "as stored" : text;
}

std::vector<std::vector<Change>> changes_of(const LayerHeads& layer,
                                            const std::optional<AttentionWeights>& weights,
                                            const WeightsOptions& options, bool has_lengths) {
  using C = Convention;
  std::vector<std::vector<Change>> out;
  if (layer.mask == Mask::causal)
    out.push_back({{[](C& c, const Rotary&) { c.mask = Mask::none; }, {}}});
  else
    out.push_back({{[](C& c, const Rotary&) { c.mask = Mask::causal; }, {}}});
  if (has_lengths) out.push_back({{[](C& c, const Rotary&) { c.ignores_lengths = true; }, {}}});
  out.push_back(rotary_changes(layer));
  out.push_back({{[](C& c, const Rotary&) { c.swapped = true; }, {}}});
  if (!layer.query_bias.empty() || !layer.turned_query.empty() || !layer.constant.empty())
    out.push_back({{[](C& c, const Rotary&) { c.without_biases = true; }, {}}});
  if (!weights) return out;
  out.push_back({{[](C& c, const Rotary&) { c.scale = LogitScale::none; }, {}},
                 {[](C& c, const Rotary&) { c.scale = LogitScale::by_root_of_dim; }, {}},
                 {[](C& c, const Rotary&) { c.scale = LogitScale::by_rank; }, {}}});
  out.push_back({{[](C& c, const Rotary&) { c.storage = Storage::transposed; }, {}},
                 {[](C& c, const Rotary&) { c.storage = Storage::output_transposed; }, {}}});
  out.push_back({{[](C& c, const Rotary&) { c.strided_heads = true; }, {}}});
  const Index heads = layer.heads();
  const Index groups = weights->k.rank() == 2 && options.heads >= 0 ? groups_of(*weights, heads) : heads;
  if (groups > 1 && groups < heads)
    out.push_back({{[](C& c, const Rotary&) { c.groups_in_turn = true; }, {}}});
  return out;
}

std::optional<LayerHeads> heads_under(const Convention& c, const LayerHeads& as_stored,
                                      const std::optional<AttentionWeights>& weights,
                                      const WeightsOptions& options) {
  LayerHeads out = as_stored;
  const std::optional<Rotary> rotary = c.without_rotary ? std::nullopt
                                       : c.rotary       ? c.rotary
                                                        : as_stored.rotary;
  if (weights) {
    try {
      WeightsOptions own = options;
      own.heads = as_stored.heads();
      out = heads_from_weights(changed(*weights, c, own.heads), own, rotary, {});
    } catch (const Error&) {
      return std::nullopt;  // shapes that this change does not allow
    }
    if (out.dim() != as_stored.dim() || out.outputs() != as_stored.outputs()) return std::nullopt;
  } else {
    if (c.swapped) out = swapped_layer(std::move(out));
    if (c.without_biases) out.query_bias = out.constant = Array();
    out.rotary = rotary;
  }
  out.mask = c.mask ? c.mask : as_stored.mask;
  return out;
}

}  // namespace headlens::matching

// Attention layers: forward, examples, files, weights of checkpoints, comparison and inspection.
#include "headlens/layer.hpp"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "arrays.hpp"
#include "bindings.hpp"
#include "call.hpp"
#include "headlens/conditions.hpp"
#include "headlens/export.hpp"
#include "headlens/inspect.hpp"
#include "headlens/span.hpp"
#include "tensors.hpp"

namespace headlens::python {
namespace {

nb::tuple examples(const AttentionLayer& layer, const ExampleOptions& options, const Settings& settings) {
  const Examples drawn = call(settings, [&](const Execution& e) { return draw_examples(layer, options, e); });
  if (!options.padding) return nb::make_tuple(to_numpy(drawn.x), to_numpy(drawn.y));
  std::vector<std::int64_t> lengths(drawn.lengths.begin(), drawn.lengths.end());
  if (lengths.empty()) lengths.assign(static_cast<std::size_t>(drawn.count()), drawn.tokens());
  return nb::make_tuple(to_numpy(drawn.x), to_numpy(drawn.y), to_numpy(lengths));
}

nb::object forward(const AttentionLayer& layer, const AnyArray& x, const std::optional<AnyArray>& lengths,
                   const Settings& settings) {
  const Array tokens = borrow(x);
  if (!lengths)
    return to_numpy(call(settings, [&](const Execution& e) { return apply_layer(layer, tokens, e); }));
  const Array own = borrow(*lengths);
  return to_numpy(
      call(settings, [&](const Execution& e) { return apply_layer(layer, make_tokens(tokens, own), e); }));
}

// Arrays that are not given are empty.
AttentionLayer make_variant(const nb::dict& arrays, const std::string& mask, const std::string& rotary,
                            Index kv_groups) {
  AttentionLayer layer;
  for (const auto& [key, to] : {std::pair{"theta", &layer.theta},
                                {"w", &layer.w},
                                {"query_bias", &layer.query_bias},
                                {"constant", &layer.constant},
                                {"q", &layer.q},
                                {"k", &layer.k}})
    if (arrays.contains(key)) *to = borrow(nb::cast<AnyArray>(arrays[key]));
  require(mask == "none" || mask == "causal", option("mask"), ": '", mask,
          "' given, expected none or causal");
  layer.variant.mask = mask == "causal" ? Mask::causal : Mask::none;
  layer.variant.bias = arrays.contains("query_bias") || arrays.contains("constant");
  if (rotary != "none") layer.variant.rotary = read_rotary(rotary);
  layer.variant.kv_groups = kv_groups;
  return check_layer(std::move(layer));
}

nb::object part(const Array& array) { return array.size() > 0 ? to_numpy_view(array) : nb::none(); }

AttentionLayer from_weights(const nb::dict& tensors, const WeightsOptions& options, const std::string& name,
                            const Settings& settings) {
  NamedArrays arrays;
  for (const auto [key, value] : tensors)
    arrays[nb::cast<std::string>(key)] = borrow(nb::cast<AnyArray>(value));
  return call(settings, [&](const Execution& e) {
    return layer_from_weights(find_weights(std::move(arrays), options, name), options, e);
  });
}

// In factors, under the names of a layer file; biases that rotary positions turn are no part of a layer.
nb::dict factors_from_weights(const nb::dict& tensors, const WeightsOptions& options, const std::string& name,
                              const std::optional<std::string>& rotary, bool bias, const Settings& settings) {
  NamedArrays arrays = to_tensors(tensors);
  const LayerHeads heads = call(settings, [&](const Execution& e) {
    return find_heads(std::move(arrays), source_of(options, false, rotary), name, e).front();
  });
  require(!bias || heads.turned_query.empty(), option("bias"),
          ": given with rotary positions, but the weights have biases of queries or keys, which are turned; "
          "no layer of headlens has those");
  NamedArrays out{{"Q", heads.q}, {"K", heads.k}, {"V", heads.v}, {"O", heads.o}};
  if (bias && !heads.query_bias.empty()) out["query_bias"] = heads.query_bias;
  if (bias && !heads.constant.empty()) out["constant"] = heads.constant;
  if (heads.rotary)
    out["rotary"] = Array::from(
        std::vector<double>{heads.rotary->base, heads.rotary->layout == RotaryLayout::half ? 0.0 : 1.0,
                            heads.rotary->share},
        {3});
  return to_dict(out);
}

// The tensors of `like` with a layer, given by the arrays of its file, in place.
nb::dict export_tensors(const nb::dict& layer, const nb::dict& like, const WeightsOptions& weights,
                        const Settings& settings) {
  NamedArrays parts = to_tensors(layer), tensors = to_tensors(like);
  return to_dict(call(settings, [&](const Execution& e) {
    const LayerHeads heads = find_heads(std::move(parts), {}, "layer", e).front();
    return export_layer(heads, std::move(tensors), weights, "like").tensors;
  }));
}

nb::dict compare(const AttentionLayer& a, const AttentionLayer& b, const std::optional<AnyArray>& x,
                 const std::optional<AnyArray>& lengths, const Settings& settings) {
  const Array given = x ? borrow(*x) : Array(), counts = lengths ? borrow(*lengths) : Array();
  nb::object span_dimension = nb::none(), error = nb::none();
  Comparison result;
  if (x) {
    const Tokens tokens = make_tokens(given, counts, "X");
    const TokenSpan span = call(settings, [&](const Execution& e) { return span_of(tokens, b.variant, e); });
    error = nb::cast(call(settings, [&](const Execution& e) { return function_error(a, b, tokens, e); }));
    span_dimension = nb::cast(span.dimension());
    result = compare_layers(on_span(a, span), on_span(b, span));
  } else {
    result = compare_layers(a, b);
  }
  nb::list matches;
  for (const HeadMatch& match : result.matches) {
    nb::dict entry;
    entry["a"] = match.a;
    entry["b"] = match.b;
    entry["theta_error"] = match.theta_error;
    entry["w_error"] = match.w_error;
    matches.append(entry);
  }
  nb::dict out;
  out["worst_error"] = result.worst_error;
  out["worst_theta_error"] = result.worst_theta_error;
  out["worst_w_error"] = result.worst_w_error;
  out["constant_error"] = b.variant.bias ? nb::cast(result.constant_error) : nb::none();
  out["heads_a"] = result.heads_a;
  out["heads_b"] = result.heads_b;
  out["span_dimension"] = span_dimension;
  out["function_error"] = error;
  out["matches"] = matches;
  return out;
}

nb::dict share_dict(const Share& share) {
  nb::dict out;
  out["share"] = share.value;
  out["low"] = share.low;
  out["high"] = share.high;
  return out;
}

nb::dict agreement_dict(const Agreement& agreement) {
  nb::list alike;
  for (const AlikeShare& entry : agreement.alike) {
    nb::dict item = share_dict(entry.share);
    item["eps"] = entry.eps;
    alike.append(item);
  }
  nb::dict out;
  out["alike"] = alike;
  out["sparse_matched"] = share_dict(agreement.sparse_matched);
  return out;
}

nb::dict spectrum_dict(const Spectrum& s) {
  nb::dict out;
  out["rank"] = s.rank;
  out["full_rank"] = s.full;
  out["condition"] = s.condition;
  out["condition_on_range"] = s.on_range;
  return out;
}

nb::dict conditions_dict(const Conditions& conditions) {
  nb::list heads;
  for (const HeadConditions& head : conditions.per_head) {
    nb::dict entry;
    entry["w"] = spectrum_dict(head.w);
    entry["theta_rank"] = head.theta_rank;
    entry["identity_share"] = head.identity_share;
    heads.append(entry);
  }
  nb::dict out;
  out["per_head"] = heads;
  out["w_sum"] = spectrum_dict(conditions.sum);
  return out;
}

nb::list tails(const AttentionLayer& layer, const InspectOptions& options, const Settings& settings) {
  const auto found = call(settings, [&](const Execution& e) { return logit_tails(layer, options, e); });
  nb::list out;
  for (const std::optional<LogitTails>& head : found) {
    if (!head) {
      out.append(nb::none());
      continue;
    }
    nb::list shares;
    for (const TailShare& tail : head->tails) {
      nb::dict item = share_dict(tail.share);
      item["deviations"] = tail.deviations;
      item["gaussian"] = tail.gaussian;
      item["ratio"] = tail.share.value / tail.gaussian;
      shares.append(item);
    }
    nb::dict entry;
    entry["kolmogorov_distance"] = head->kolmogorov;
    entry["tails"] = shares;
    out.append(entry);
  }
  return out;
}

nb::dict inspect(const AttentionLayer& layer, const InspectOptions& options, const Settings& settings) {
  const Inspection result =
      call(settings, [&](const Execution& e) { return inspect_layer(layer, options, e); });
  const Conditions conditions =
      call(settings, [&](const Execution& e) { return layer_conditions(layer, e); });
  nb::list heads;
  for (const HeadSummary& head : result.per_head) {
    nb::dict entry;
    entry["scale"] = head.scale;
    entry["effective_rank"] = head.effective_rank;
    entry["w_norm"] = head.w_norm;
    entry["diagonal_mean"] = head.diagonal_mean;
    entry["off_diagonal_deviation"] = head.off_diagonal_deviation;
    entry["identity_cosine"] = head.identity_cosine;
    heads.append(entry);
  }
  nb::object closest = nb::none(), agreement = nb::none();
  if (result.closest) {
    nb::dict pair;
    pair["a"] = result.closest->a;
    pair["b"] = result.closest->b;
    pair["distance"] = result.closest->distance;
    closest = pair;
  }
  if (result.agreement) agreement = agreement_dict(*result.agreement);
  nb::dict out;
  out["heads"] = result.heads;
  out["distinct_heads"] = result.distinct_heads;
  out["dim"] = result.dim;
  out["outputs"] = result.outputs;
  out["per_head"] = heads;
  out["closest_pair"] = closest;
  out["tokens"] = options.tokens;
  out["samples"] = options.samples;
  out["agreement"] = agreement;
  out["conditions"] = conditions_dict(conditions);
  return out;
}

void bind_class(nb::module_& m) {
  nb::class_<AttentionLayer>(m, "AttentionLayer")
      .def_prop_ro("theta", [](const AttentionLayer& layer) { return part(layer.theta); })
      .def_prop_ro("query_bias", [](const AttentionLayer& layer) { return part(layer.query_bias); })
      .def_prop_ro("constant", [](const AttentionLayer& layer) { return part(layer.constant); })
      .def_prop_ro("q", [](const AttentionLayer& layer) { return part(layer.q); })
      .def_prop_ro("k", [](const AttentionLayer& layer) { return part(layer.k); })
      .def_prop_ro("mask", [](const AttentionLayer& layer) { return name(layer.variant.mask); })
      .def_prop_ro("rotary",
                   [](const AttentionLayer& layer) {
                     return layer.variant.rotary ? name(*layer.variant.rotary) : std::string("none");
                   })
      .def_prop_ro("kv_groups", [](const AttentionLayer& layer) { return layer.variant.kv_groups; })
      .def_prop_ro("w", [](const AttentionLayer& layer) { return to_numpy_view(layer.w); })
      .def("forward", &forward, nb::arg("x"), nb::arg("lengths").none(), nb::arg("settings"))
      .def("examples", &examples, nb::arg("options"), nb::arg("settings"))
      .def("inspect", &inspect, nb::arg("options"), nb::arg("settings"))
      .def("tails", &tails, nb::arg("options"), nb::arg("settings"))
      .def("canonical", [](const AttentionLayer& layer) { return canonical(layer); })
      .def("restrict", &restrict_layer, nb::arg("dim"))
      .def(
          "save",
          [](const AttentionLayer& layer, const std::filesystem::path& path) { save_layer(path, layer); },
          nb::arg("path"), nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace

void bind_layer(nb::module_& m) {
  bind_class(m);
  m.def(
      "make_layer",
      [](const AnyArray& theta, const AnyArray& w) { return make_layer(borrow(theta), borrow(w)); },
      nb::arg("theta"), nb::arg("w"));
  m.def("make_variant", &make_variant, nb::arg("arrays"), nb::arg("mask"), nb::arg("rotary"),
        nb::arg("kv_groups"));
  m.def("draw_teacher", &draw_teacher, nb::arg("options"));
  m.def(
      "load_layer",
      [](const std::filesystem::path& path, const Settings& settings) {
        return call(settings, [&](const Execution& e) { return load_layer(path, e); });
      },
      nb::arg("path"), nb::arg("settings"));
  m.def("layer_from_weights", &from_weights, nb::arg("tensors"), nb::arg("options"), nb::arg("name"),
        nb::arg("settings"));
  m.def(
      "load_weights",
      [](const std::filesystem::path& path, const WeightsOptions& options, const Settings& settings) {
        return call(settings, [&](const Execution& e) {
          return layer_from_weights(load_weights(path, options, e), options, e);
        });
      },
      nb::arg("path"), nb::arg("options"), nb::arg("settings"));
  m.def("factors_from_weights", &factors_from_weights, nb::arg("tensors"), nb::arg("options"),
        nb::arg("name"), nb::arg("rotary").none(), nb::arg("bias"), nb::arg("settings"));
  m.def("export_layer", &export_tensors, nb::arg("layer"), nb::arg("like"), nb::arg("weights"),
        nb::arg("settings"));
  m.def("compare_layers", &compare, nb::arg("a"), nb::arg("b"), nb::arg("x").none(),
        nb::arg("lengths").none(), nb::arg("settings"));
}

}  // namespace headlens::python

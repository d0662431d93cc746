// The heads of layers in files: layers of headlens, and attention weights of checkpoints.
#include <algorithm>
#include <cmath>

#include "attention/variant_file.hpp"
#include "base/memory.hpp"
#include "headlens/arrays.hpp"
#include "headlens/error.hpp"
#include "headlens/match.hpp"

namespace headlens {
namespace {

Array as_doubles(const NamedArrays& tensors, const std::string& key, const std::string& name) {
  const auto found = tensors.find(key);
  require(found != tensors.end(), name, ": array '", key, "' is missing");
  const Array& array = found->second;
  require(array.dtype() != DType::boolean, name, ": ", key, " is ", array.describe(), ", expected numbers");
  for (Index i = 0; i < array.size(); ++i)
    require(std::isfinite(array.at(i)), name, ": ", key, " holds ", array.at(i), " at flat index ", i,
            ", expected finite values");
  return Array::from(array.to_doubles(), array.shape());
}

void expect_shape(const Array& array, std::vector<Index> shape, const std::string& key,
                  const std::string& name) {
  require(array.shape() == shape && array.size() > 0, name, ": ", key, " has shape ",
          format_shape(array.shape()), ", expected ", format_shape(shape));
}

bool is_layer(const NamedArrays& tensors) {
  return tensors.count("Theta") > 0 || (tensors.count("Q") > 0 && tensors.count("K") > 0);
}

// The biases become a part of Theta and of the constant, where no name is left for a message.
void check_biases(const AttentionWeights& weights, const std::string& name) {
  const Array* const biases[] = {&weights.bq, &weights.bk, &weights.bv, &weights.bo};
  for (std::size_t i = 0; i < 4; ++i)
    for (Index j = 0; j < biases[i]->size(); ++j)
      require(std::isfinite(biases[i]->at(j)), name, ": ", weights.stored[4 + i].tensor, " holds ",
              biases[i]->at(j), " at index ", j, " of ", "qkvo"[i], ", expected finite values");
}

LayerHeads read_layer(const NamedArrays& tensors, const HeadsSource& source, const std::string& name) {
  LayerHeads out;
  if (tensors.count("Theta") > 0) {
    out =
        heads_of(make_layer(as_doubles(tensors, "Theta", name), as_doubles(tensors, "W", name), name), name);
  } else {
    out.q = as_doubles(tensors, "Q", name), out.k = as_doubles(tensors, "K", name);
    require(out.q.rank() == 3, name, ": Q has shape ", format_shape(out.q.shape()), ", expected (m, d, r)");
    expect_shape(out.k, out.q.shape(), "K", name);
    const bool dense = tensors.count("W") > 0;
    out.v = as_doubles(tensors, dense ? "W" : "V", name);
    require(out.v.rank() == 3, name, ": V has shape ", format_shape(out.v.shape()), ", expected (m, d, s)");
    expect_shape(out.v, {out.heads(), out.dim(), out.v.dim(2)}, dense ? "W" : "V", name);
    if (!dense) {
      out.o = as_doubles(tensors, "O", name);
      require(out.o.rank() == 3, name, ": O has shape ", format_shape(out.o.shape()), ", expected (m, s, e)");
      expect_shape(out.o, {out.heads(), out.v.dim(2), out.o.dim(2)}, "O", name);
    }
  }
  if (tensors.count("query_bias") > 0) {
    out.query_bias = as_doubles(tensors, "query_bias", name);
    expect_shape(out.query_bias, {out.heads(), out.dim()}, "query_bias", name);
  }
  if (tensors.count("constant") > 0) {
    out.constant = as_doubles(tensors, "constant", name);
    expect_shape(out.constant, {out.outputs()}, "constant", name);
  }
  out.name = name;
  out.rotary = source.rotary ? source.rotary : read_rotary_array(tensors, name);
  out.mask = read_mask(tensors, name);
  require(!out.rotary || !out.k.empty(), name,
          ": with rotary positions a layer has factors Q and K, not Theta");
  require(!out.rotary || out.rotary->pairs(out.q.dim(2)) > 0, name,
          ": rotary positions turn pairs of columns, but Q has ", out.q.dim(2),
          " columns, of which a share of ", out.rotary ? out.rotary->share : 1, " is turned");
  return out;
}

}  // namespace

LayerHeads heads_of(const AttentionLayer& layer, const std::string& name) {
  LayerHeads out;
  out.name = name, out.v = layer.w;
  out.q = layer.variant.rotary ? layer.q : layer.theta;
  out.k = layer.variant.rotary ? layer.k : Array();
  out.rotary = layer.variant.rotary, out.mask = layer.variant.mask;
  out.query_bias = layer.query_bias, out.constant = layer.constant;
  return out;
}

std::vector<LayerHeads> find_heads(NamedArrays tensors, const HeadsSource& source, const std::string& name,
                                   const Execution& execution) {
  if (is_layer(tensors)) {
    require(source.weights.prefix.empty(), option("prefix"), ": '", source.weights.prefix, "' given, but ",
            name, " holds one layer");
    return {read_layer(tensors, source, name)};
  }
  std::vector<std::string> prefixes{source.weights.prefix};
  if (source.all_layers) prefixes = find_layers(tensors, source.weights, name);
  std::vector<LayerHeads> out;
  for (const std::string& prefix : prefixes) {
    WeightsOptions options = source.weights;
    options.prefix = prefix;
    const AttentionWeights weights = find_weights(tensors, options, name);
    check_biases(weights, name);
    out.push_back(heads_from_weights(weights, options, source.rotary, execution));
    out.back().name = prefix.empty() ? name : prefix;
  }
  return out;
}

std::vector<LayerHeads> load_heads(const std::filesystem::path& path, const HeadsSource& source,
                                   const Execution& execution) {
  return find_heads(load_tensors(path, execution), source, path.string(), execution);
}

}  // namespace headlens

// Refitted layers as files of headlens, and in the layout of a checkpoint.
#include <algorithm>

#include "headlens/arrays.hpp"
#include "headlens/error.hpp"
#include "headlens/export.hpp"
#include "headlens/refit.hpp"

namespace headlens {
namespace {

// (m, a, b) with heads, rows and columns of zeros added.
Array padded(const Array& array, Index m, Index a, Index b) {
  Array out(DType::f64, {m, a, b});
  for (Index i = 0; i < array.dim(0); ++i)
    for (Index row = 0; row < array.dim(1); ++row)
      std::copy_n(array.data<double>() + (i * array.dim(1) + row) * array.dim(2), array.dim(2),
                  out.data<double>() + (i * a + row) * b);
  return out;
}

// As many heads as there are in the checkpoint; those that are added have W = 0.
LayerHeads with_heads(const LayerHeads& layer, Index m) {
  LayerHeads out = layer;
  const auto more = [m](Array& array) {
    if (!array.empty()) array = padded(array, m, array.dim(1), array.dim(2));
  };
  more(out.q), more(out.k), more(out.v), more(out.o);
  for (Array* bias : {&out.query_bias, &out.turned_query, &out.turned_key})
    if (!bias->empty()) {
      Array grown(DType::f64, {m, bias->dim(1)});
      std::copy_n(bias->data<double>(), bias->size(), grown.data<double>());
      *bias = grown;
    }
  return out;
}

// Whether each of the present matrices and biases is all of its tensor.
bool has_own_tensors(const AttentionWeights& weights) {
  for (std::size_t i = 0; i < weights.stored.size(); ++i)
    for (std::size_t j = i + 1; j < weights.stored.size(); ++j)
      if (weights.stored[i].present() && weights.stored[i].tensor == weights.stored[j].tensor) return false;
  return true;
}

// The tensors of q, k, v, o and their biases with as many rows and columns as the layer needs.
void resize(const AttentionWeights& weights, const RefitShape& shape, NamedArrays& like,
            const std::string& name) {
  const Index counts[] = {shape.heads, shape.kv_groups, shape.kv_groups, shape.heads},
              ranks[] = {shape.rank, shape.rank, shape.value_rank, shape.value_rank};
  for (std::size_t i = 0; i < 8; ++i) {
    const StoredMatrix& stored = weights.stored[i];
    if (!stored.present() || i == 7) continue;  // the output bias keeps its size
    require(i > 3 || stored.rows > 0, name, ": ", stored.tensor,
            " has a layer axis; give a file of one layer");
    Array& tensor = like.at(stored.tensor);
    std::vector<Index> dims = tensor.shape();
    const Index count = counts[i % 4], rank = ranks[i % 4];
    if (dims.size() == (i < 4 ? 3u : 2u) && stored.run > 0)  // (m, in, r), or a bias (m, r)
      dims.front() = count, dims.back() = rank;
    else if (i == 3 && dims.size() == 3)  // (m, r, out)
      dims[0] = count, dims[1] = rank;
    else if (i == 3)
      dims[stored.row_step == 1 ? 0 : 1] = count * rank;
    else if (i < 3)
      dims[stored.row_step == 1 ? 1 : 0] = count * rank;
    else if (dims.size() == 2)
      dims = {count, rank};
    else
      dims = {count * rank};
    tensor = Array(tensor.dtype(), dims);
  }
}

}  // namespace

NamedArrays tensors_of(const Refit& refit) {
  const LayerHeads& layer = refit.layer;
  require(layer.turned_query.empty(), "refit",
          ": a layer file cannot hold biases that rotary positions turn; write a checkpoint in the layout of "
          "the original instead");
  NamedArrays arrays{{"Q", layer.q}, {"K", layer.k}, {"V", layer.v}, {"O", layer.o}};
  if (!layer.query_bias.empty()) arrays.emplace("query_bias", layer.query_bias);
  if (!layer.constant.empty()) arrays.emplace("constant", layer.constant);
  const auto one = [](Index value) {
    return Array::from(std::vector<std::int64_t>{static_cast<std::int64_t>(value)}, {1});
  };
  if (layer.mask == Mask::causal) arrays.emplace("causal", one(1));
  if (refit.shape.kv_groups < refit.shape.heads) arrays.emplace("kv_groups", one(refit.shape.kv_groups));
  if (layer.rotary) {
    const double layout = layer.rotary->layout == RotaryLayout::half ? 0 : 1;
    arrays.emplace("rotary",
                   Array::from(std::vector<double>{layer.rotary->base, layout, layer.rotary->share}, {3}));
  }
  return arrays;
}

NamedArrays export_refit(const Refit& refit, NamedArrays like, const WeightsOptions& options,
                         const std::string& name) {
  const AttentionWeights weights = find_weights(like, options, name);
  WeightsOptions own = options;
  own.heads = refit.layer.heads();
  if (!has_own_tensors(weights)) {
    const Index m = std::max(options.heads, weights.heads);
    require(m >= refit.layer.heads(), name,
            ": its matrices share tensors, and the number of heads that they are cut into is not known");
    own.heads = m;
    return export_layer(with_heads(refit.layer, m), std::move(like), own, name).tensors;
  }
  resize(weights, refit.shape, like, name);
  return export_layer(refit.layer, std::move(like), own, name).tensors;
}

}  // namespace headlens

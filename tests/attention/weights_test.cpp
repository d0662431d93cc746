// Layers from attention weights, against the sums of their definition and under every way of naming them.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/random.hpp"
#include "headlens/arrays.hpp"
#include "headlens/error.hpp"
#include "headlens/inspect.hpp"
#include "headlens/match.hpp"
#include "io/files.hpp"

namespace headlens {
namespace {

using test::expect_error;

Array random_array(std::vector<Index> shape, std::uint64_t index) {
  Array out(DType::f64, std::move(shape));
  Stream stream(1, "weights-test", index);
  for (Index i = 0; i < out.size(); ++i) out.data<double>()[i] = stream.normal();
  return out;
}

struct Sizes {
  Index heads, groups, d, e, key_dim, value_dim;
};

AttentionWeights random_weights(const Sizes& s) {
  return {random_array({s.heads * s.key_dim, s.d}, 0), random_array({s.groups * s.key_dim, s.d}, 1),
          random_array({s.groups * s.value_dim, s.d}, 2), random_array({s.e, s.heads * s.value_dim}, 3)};
}

double theta_entry(const AttentionWeights& w, const Sizes& s, Index h, Index i, Index j) {
  double sum = 0;
  for (Index r = 0; r < s.key_dim; ++r)
    sum += w.q.at((h * s.key_dim + r) * s.d + i) * w.k.at((h * s.groups / s.heads * s.key_dim + r) * s.d + j);
  return sum / std::sqrt(static_cast<double>(s.key_dim));
}

double w_entry(const AttentionWeights& w, const Sizes& s, Index h, Index i, Index c) {
  double sum = 0;
  for (Index r = 0; r < s.value_dim; ++r)
    sum += w.v.at((h * s.groups / s.heads * s.value_dim + r) * s.d + i) *
           w.o.at(c * s.heads * s.value_dim + h * s.value_dim + r);
  return sum;
}

TEST(LayerFromWeights, EqualsItsDefinition) {
  for (const Sizes s :
       {Sizes{1, 1, 1, 1, 1, 1}, Sizes{2, 2, 6, 6, 3, 3}, Sizes{4, 2, 5, 3, 2, 4}, Sizes{6, 1, 4, 7, 3, 1}}) {
    const AttentionWeights weights = random_weights(s);
    const AttentionLayer layer = layer_from_weights(weights, {.heads = s.heads}, {.threads = 3});
    ASSERT_EQ(layer.theta.shape(), (std::vector<Index>{s.heads, s.d, s.d}));
    ASSERT_EQ(layer.w.shape(), (std::vector<Index>{s.heads, s.d, s.e}));
    for (Index h = 0; h < s.heads; ++h)
      for (Index i = 0; i < s.d; ++i) {
        for (Index j = 0; j < s.d; ++j)
          EXPECT_NEAR(layer.theta.at((h * s.d + i) * s.d + j), theta_entry(weights, s, h, i, j), 1e-13);
        for (Index c = 0; c < s.e; ++c)
          EXPECT_NEAR(layer.w.at((h * s.d + i) * s.e + c), w_entry(weights, s, h, i, c), 1e-13);
      }
  }
}

TEST(LayerFromWeights, RestrictedIsTheRestrictedLayer) {
  const AttentionWeights weights = random_weights({2, 2, 6, 4, 3, 3});
  const AttentionLayer whole = layer_from_weights(weights, {.heads = 2}, {});
  for (const Index r : {1, 4, 5, 6}) {
    const AttentionLayer want = restrict_layer(whole, r),
                         got = layer_from_weights(weights, {.heads = 2, .restrict_dim = r}, {});
    EXPECT_EQ(got.w.shape(), want.w.shape());
    EXPECT_LT(compare_layers(got, want).worst_error, 1e-14);
  }
  expect_error([&] { layer_from_weights(weights, {.heads = 2, .restrict_dim = 7}, {}); }, {"7", "6 columns"});
}

TEST(LayerFromWeights, TakesOneOfStackedLayers) {
  const AttentionWeights stacked{random_array({3, 4, 4}, 0), random_array({3, 4, 4}, 1),
                                 random_array({3, 4, 4}, 2), random_array({3, 4, 4}, 3)};
  const auto slice = [](const Array& all, Index i) {
    Array out(DType::f64, {4, 4});
    std::copy_n(all.data<double>() + 16 * i, 16, out.data<double>());
    return out;
  };
  const AttentionWeights second{slice(stacked.q, 1), slice(stacked.k, 1), slice(stacked.v, 1),
                                slice(stacked.o, 1)};
  EXPECT_EQ(layer_from_weights(stacked, {.heads = 2, .layer = 1}, {}).w.to_doubles(),
            layer_from_weights(second, {.heads = 2}, {}).w.to_doubles());
  expect_error([&] { layer_from_weights(stacked, {.heads = 2}, {}); }, {"(3, 4, 4)", " layers with layer"});
  expect_error([&] { layer_from_weights(stacked, {.heads = 2, .layer = 3}, {}); }, {"3 given", "3 layers"});
  expect_error([&] { layer_from_weights(second, {.heads = 2, .layer = 0}, {}); }, {"without a layer axis"});
}

TEST(LayerFromWeights, RefusesShapesThatDoNotFit) {
  const AttentionWeights good =
      random_weights({4, 2, 5, 3, 2, 4});  // q (8, 5), k (4, 5), v (8, 5), o (3, 16)
  const auto refuse = [&](const std::function<void(AttentionWeights&)>& change,
                          std::initializer_list<std::string> text, Index heads = 4) {
    AttentionWeights bad = good;
    change(bad);
    expect_error([&] { layer_from_weights(bad, {.heads = heads}, {}); }, text);
  };
  const auto nothing = [](AttentionWeights&) {};
  refuse(nothing, {"W_Q (8, 5)", "3 heads"}, 3);
  refuse(nothing, {"heads: 0"}, 0);
  refuse(nothing, {"W_K (4, 5)", "heads of 8"}, 1);
  refuse([](AttentionWeights& w) { w.k = random_array({6, 5}, 1); }, {"W_K (6, 5)", "4 heads of 2"});
  refuse([](AttentionWeights& w) { w.k = random_array({4, 6}, 1); }, {"W_K (4, 6)", "6 columns"});
  refuse([](AttentionWeights& w) { w.v = random_array({7, 5}, 1); }, {"W_V (7, 5)", "2 heads"});
  refuse([](AttentionWeights& w) { w.o = random_array({16, 3}, 1); }, {"W_O (16, 3)", "expected 16"});
  refuse([](AttentionWeights& w) { w.q = random_array({8}, 1); }, {"W_Q", "(8,)"});
  refuse([](AttentionWeights& w) { w.q = random_array({0, 5}, 1); }, {"W_Q", "empty"});
  refuse([](AttentionWeights& w) { w.q = Array(DType::i64, {8, 5}); }, {"W_Q", "int64"});
  refuse([](AttentionWeights& w) { w.o.data<double>()[2] = NAN; }, {"W_O", "nan", "index 2"});
}

class LoadWeights : public test::FolderTest {
 protected:
  // The layer of a file with these tensors, written both ways.
  AttentionLayer layer(const NamedArrays& tensors, WeightsOptions options = {}) {
    options.heads = 2;
    notes.clear();
    Execution execution;
    execution.log = [this](std::string_view text) { notes += text; };
    write_npz(folder / "w.npz", tensors);
    write_safetensors(folder / "w.safetensors", {tensors, {}});
    const AttentionLayer first = layer_from_weights(load_weights(folder / "w.npz", options, {}), options, {});
    const AttentionLayer second =
        layer_from_weights(load_weights(folder / "w.safetensors", options, {}), options, execution);
    EXPECT_EQ(first.theta.to_doubles(), second.theta.to_doubles());
    return second;
  }
  void refuse(const NamedArrays& tensors, std::initializer_list<std::string> text,
              const WeightsOptions& options = {}) {
    expect_error([&] { layer(tensors, options); }, text);
  }
  void expect_same(const AttentionLayer& got) {
    EXPECT_EQ(got.theta.to_doubles(), want.theta.to_doubles());
    EXPECT_EQ(got.w.to_doubles(), want.w.to_doubles());
  }

  AttentionWeights w = random_weights({2, 2, 4, 4, 2, 2});
  AttentionLayer want = layer_from_weights(w, {.heads = 2}, {});
  Array other = random_array({4, 4}, 9), bias = random_array({4}, 10);
  std::string notes;
};

TEST_F(LoadWeights, UnderEveryName) {
  expect_same(layer({{"W_Q", w.q}, {"W_K", w.k}, {"W_V", w.v}, {"W_O", w.o}}));
  expect_same(layer({{"q_proj", w.q}, {"k_proj", w.k}, {"v_proj", w.v}, {"o_proj", w.o}}));
  expect_same(layer({{"a.q_proj.weight", w.q},
                     {"a.k_proj.weight", w.k},
                     {"a.v_proj.weight", w.v},
                     {"a.out_proj.weight", w.o}}));
  // A BERT layer has more than one dense.
  expect_same(layer({{"attention.self.query.weight", w.q},
                     {"attention.self.key.weight", w.k},
                     {"attention.self.value.weight", w.v},
                     {"attention.output.dense.weight", w.o},
                     {"intermediate.dense.weight", other},
                     {"output.dense.weight", other}}));
  EXPECT_EQ(notes, "");
}

TEST_F(LoadWeights, OfTorch) {
  std::vector<double> all = w.q.to_doubles();
  for (const Array* part : {&w.k, &w.v})
    for (Index i = 0; i < 16; ++i) all.push_back(part->at(i));
  const NamedArrays file{{"attn.in_proj_weight", Array::from(all, {12, 4})},
                         {"attn.in_proj_bias", random_array({12}, 10)},
                         {"attn.out_proj.weight", w.o},
                         {"attn.out_proj.bias", Array(DType::f64, {4})}};  // zero: nothing is ignored
  expect_same(layer(file));
  EXPECT_NE(notes.find("attn.in_proj_bias"), std::string::npos);
  EXPECT_EQ(notes.find("out_proj.bias"), std::string::npos);
  refuse({{"in_proj_weight", random_array({11, 4}, 1)}, {"out_proj.weight", w.o}}, {"(11, 4)", "(3 d, d)"});
  refuse({{"in_proj_weight", random_array({12, 4}, 1)}}, {"out_proj.weight"});
}

TEST_F(LoadWeights, TransposedOrCutIntoHeads) {
  const auto fill = [](std::vector<Index> shape, const std::function<double(Index)>& value) {
    Array out(DType::f64, std::move(shape));
    for (Index i = 0; i < out.size(); ++i) out.data<double>()[i] = value(i);
    return out;
  };
  const Array* parts[] = {&w.q, &w.k, &w.v};
  // GPT-2: (in, 3 out) and (in, out); another c_proj belongs to the network behind.
  const Array fused = fill({4, 12}, [&](Index i) { return parts[i % 12 / 4]->at(i % 12 % 4 * 4 + i / 12); });
  const Array output = fill({4, 4}, [&](Index i) { return w.o.at(i % 4 * 4 + i / 4); });
  expect_same(layer({{"h.0.attn.c_attn.weight", fused},
                     {"h.0.attn.c_proj.weight", output},
                     {"h.0.mlp.c_proj.weight", other}}));
  // TransformerLens: two heads, (m, in, r) and (m, r, out).
  const auto heads = [&](const Array& from) {
    return fill({2, 4, 2}, [&](Index i) { return from.at((i / 8 * 2 + i % 2) * 4 + i / 2 % 4); });
  };
  const Array out = fill({2, 2, 4}, [&](Index i) { return w.o.at(i % 4 * 4 + i / 4); });
  const NamedArrays lens{{"blocks.0.attn.W_Q", heads(w.q)},
                         {"blocks.0.attn.W_K", heads(w.k)},
                         {"blocks.0.attn.W_V", heads(w.v)},
                         {"blocks.0.attn.W_O", out}};
  expect_same(layer(lens));
  expect_same(layer(lens, {.format = WeightsFormat::transformer_lens}));
  refuse({{"c_attn.weight", random_array({4, 11}, 1)}, {"attn.c_proj.weight", w.o}}, {"(4, 11)", "(d, 3 d)"});
}

TEST_F(LoadWeights, BiasesMakeQueryBiasAndConstant) {
  const Array bq = random_array({4}, 20), bk = random_array({4}, 21), bv = random_array({4}, 22),
              bo = random_array({4}, 23);
  const NamedArrays file{{"q_proj.weight", w.q}, {"k_proj.weight", w.k}, {"v_proj.weight", w.v},
                         {"o_proj.weight", w.o}, {"q_proj.bias", bq},    {"k_proj.bias", bk},
                         {"v_proj.bias", bv},    {"o_proj.bias", bo}};
  const AttentionWeights found = find_weights(file, {}, "f");
  const LayerHeads heads = heads_from_weights(found, {.heads = 2}, std::nullopt, {});
  for (Index h = 0; h < 2; ++h)
    for (Index i = 0; i < 4; ++i) {
      double u = 0;
      for (Index a = 0; a < 2; ++a) u += w.k.at((h * 2 + a) * 4 + i) * bq.at(h * 2 + a) / std::sqrt(2.0);
      EXPECT_NEAR(heads.query_bias.at(h * 4 + i), u, 1e-14);
    }
  for (Index c = 0; c < 4; ++c) {
    double sum = bo.at(c);
    for (Index a = 0; a < 4; ++a) sum += w.o.at(c * 4 + a) * bv.at(a);
    EXPECT_NEAR(heads.constant.at(c), sum, 1e-14);
  }
  // Rotary positions turn both biases, and both stay.
  const LayerHeads turned = heads_from_weights(found, {.heads = 2}, Rotary{}, {});
  EXPECT_TRUE(turned.query_bias.empty());
  EXPECT_EQ(turned.turned_key.to_doubles(), bk.to_doubles());
  NamedArrays bad = file;
  bad["q_proj.bias"] = random_array({5}, 1);
  expect_error([&] { find_weights(bad, {}, "f"); }, {"q_proj.bias", "(5,)", "expected 4 numbers"});
}

TEST_F(LoadWeights, LayersAreFoundInTheOrderOfTheirNumbers) {
  NamedArrays file;
  for (const char* layer : {"2", "10", "0"}) {
    for (const char* part : {"self.query", "self.key", "self.value", "output.dense"})
      file[join("encoder.layer.", layer, ".attention.", part, ".weight")] = w.q;
    file[join("encoder.layer.", layer, ".output.dense.weight")] = w.q;
  }
  EXPECT_EQ(find_layers(file, {}, "f"),
            (std::vector<std::string>{"encoder.layer.0.attention", "encoder.layer.2.attention",
                                      "encoder.layer.10.attention"}));
  for (const std::string& prefix : find_layers(file, {}, "f"))
    EXPECT_NO_THROW(find_weights(file, {.prefix = prefix}, "f"));
}

TEST_F(LoadWeights, PrefixesEndAtASeparator) {
  NamedArrays file;
  for (const char* layer : {"layers.1", "layers.10"})
    for (const char* part : {"q_proj", "k_proj", "v_proj", "o_proj"})
      file[join(layer, ".self_attn.", part, ".weight")] = other;
  file["layers.1.self_attn.q_proj.weight"] = w.q;
  file["layers.1.self_attn.k_proj.weight"] = w.k;
  file["layers.1.self_attn.v_proj.weight"] = w.v;
  file["layers.1.self_attn.o_proj.weight"] = w.o;
  file["layers.1.self_attn.q_norm.weight"] = bias;
  expect_same(layer(file, {.prefix = "layers.1"}));
  EXPECT_NE(notes.find("layers.1.self_attn.q_norm.weight"), std::string::npos);
  expect_same(layer(file, {.format = WeightsFormat::hugging_face, .prefix = "layers.1."}));
  refuse(file, {"2 tensors end in 'q_proj.weight'", "layers.10", "longer prefix"});
  refuse(file, {"layers.2"}, {.prefix = "layers.2"});
  refuse(file, {"format torch"}, {.format = WeightsFormat::torch, .prefix = "layers.1"});
}

TEST_F(LoadWeights, RefusesWhatIsMissingOrDouble) {
  const NamedArrays factors{{"W_Q", w.q}, {"W_K", w.k}, {"W_V", w.v}, {"W_O", w.o}};
  NamedArrays both = factors, partly = factors;
  both["query.weight"] = other;
  refuse(both, {"choose with format or prefix"});
  expect_same(layer(both, {.format = WeightsFormat::factors}));
  partly.erase("W_V");
  refuse(partly, {"'W_V'"});
  refuse({{"x", other}}, {"no attention weights", "1 tensors", "'x'"});
  expect_error([&] { load_weights(folder / "w.pt", {}, {}); }, {"w.pt", ".safetensors or .npz"});
  expect_error([&] { load_weights(folder / "w.npy", {}, {}); }, {"weights-q, weights-k"});
}

TEST_F(LoadWeights, FromFourFiles) {
  const std::vector<const Array*> parts{&w.q, &w.k, &w.v, &w.o};
  for (std::size_t i = 0; i < 4; ++i) write_npy(folder / join(i, ".npy"), *parts[i]);
  const auto file = [&](int i) { return folder / join(i, ".npy"); };
  expect_same(layer_from_weights(load_weights(file(0), file(1), file(2), file(3), {}), {.heads = 2}, {}));
  expect_error(
      [&] { layer_from_weights(load_weights(file(0), file(1), file(2), file(3), {}), {.heads = 3}, {}); },
      {"0.npy (4, 4)", "3 heads"});
}

}  // namespace
}  // namespace headlens

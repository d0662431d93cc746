// Attention weights to a layer.
#include <algorithm>
#include <cmath>

#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "headlens/error.hpp"
#include "headlens/match.hpp"
#include "headlens/options.hpp"
#include "linalg/blas.hpp"

namespace headlens {
namespace {

// One matrix of the weights, (out, in).
struct Factor {
  Matrix<double> values;
  std::string text;  // "W_Q (256, 256)", for messages

  Index out() const { return values.rows(); }
  Index in() const { return values.cols(); }
};

Factor read_factor(const Array& array, const std::string& label, const std::optional<Index>& layer) {
  require(array.is_float(), label, " is ", array.describe(), ", expected float32 or float64");
  require(array.rank() == 2 || array.rank() == 3, label, " has shape ", format_shape(array.shape()),
          ", expected (out, in) or (layer, out, in)");
  const bool stacked = array.rank() == 3;
  const Index layers = stacked ? array.dim(0) : 1, chosen = layer.value_or(0);
  require(stacked || !layer, option("layer"), ": ", chosen, " given, but ", label, " has shape ",
          format_shape(array.shape()), ", without a layer axis");
  require(layer || layers == 1, label, " has shape ", format_shape(array.shape()), ": choose one of its ",
          layers, " layers with ", option("layer"));
  require(chosen >= 0 && chosen < layers, option("layer"), ": ", chosen, " given, but ", label, " has ",
          layers, " layers, counted from 0");
  const Index rows = array.dim(stacked ? 1 : 0), cols = array.dim(stacked ? 2 : 1);
  require(rows > 0 && cols > 0, label, " has shape ", format_shape(array.shape()), ", which is empty");
  Factor factor{Matrix<double>(rows, cols), join(label, " ", format_shape({rows, cols}))};
  for (Index i = 0; i < rows * cols; ++i) {
    const double value = factor.values.data()[i] = array.at(chosen * rows * cols + i);
    require(std::isfinite(value), label, " holds ", value, " at flat index ", i, ", expected finite values");
  }
  return factor;
}

struct HeadShape {
  Index heads, groups;       // of queries; of keys and values, each shared by heads / groups heads
  Index key_dim, value_dim;  // rows of a head
};

HeadShape check_shapes(const Factor& q, const Factor& k, const Factor& v, const Factor& o, Index heads) {
  require(q.out() % heads == 0, q.text, " has ", q.out(), " rows, which do not make ", heads, " heads");
  const Index key_dim = q.out() / heads, groups = k.out() / key_dim;
  for (const Factor* other : {&k, &v})
    require(other->in() == q.in(), other->text, " has ", other->in(), " columns, but ", q.text, " has ",
            q.in());
  require(k.out() % key_dim == 0 && heads % groups == 0, k.text, " has ", k.out(),
          " rows, which do not share ", heads, " heads of ", key_dim, " (", q.text, ")");
  require(v.out() % groups == 0, v.text, " has ", v.out(), " rows, which do not make ", groups, " heads, as ",
          k.text, " has");
  const Index value_dim = v.out() / groups;
  require(o.in() == heads * value_dim, o.text, " has ", o.in(), " columns, expected ", heads * value_dim,
          ": ", heads, " heads of ", value_dim, " (", v.text, ")");
  return {heads, groups, key_dim, value_dim};
}

struct Factors {
  Factor q, k, v, o;
};

Factors read_factors(const AttentionWeights& weights, const WeightsOptions& options) {
  const auto factor = [&](const Array& array, std::size_t i) {
    return read_factor(array, weights.names.at(i), options.layer);
  };
  return {factor(weights.q, 0), factor(weights.k, 1), factor(weights.v, 2), factor(weights.o, 3)};
}

// u_h = K_h b_Q / sqrt(r), or with rotary positions the biases themselves; c = sum_h O_h^T b_V + b_O.
void add_biases(const AttentionWeights& weights, const HeadShape& s, LayerHeads& out) {
  const Index m = s.heads, d = out.dim(), r = s.key_dim, p = s.value_dim, e = out.outputs(),
              shared = m / s.groups;
  const double scale = 1 / std::sqrt(static_cast<double>(r));
  if (out.rotary && (!weights.bq.empty() || !weights.bk.empty())) {
    out.turned_query = Array(DType::f64, {m, r}), out.turned_key = Array(DType::f64, {m, r});
    for (Index h = 0; h < m; ++h)
      for (Index a = 0; a < r; ++a) {
        out.turned_query.data<double>()[h * r + a] =
            weights.bq.empty() ? 0 : scale * weights.bq.at(h * r + a);
        out.turned_key.data<double>()[h * r + a] = weights.bk.empty() ? 0 : weights.bk.at(h / shared * r + a);
      }
  } else if (!weights.bq.empty()) {
    out.query_bias = Array(DType::f64, {m, d});
    for (Index h = 0; h < m; ++h)
      for (Index i = 0; i < d; ++i)
        for (Index a = 0; a < r; ++a)
          out.query_bias.data<double>()[h * d + i] +=
              scale * out.k.data<double>()[(h * d + i) * r + a] * weights.bq.at(h * r + a);
  }
  if (weights.bv.empty() && weights.bo.empty()) return;
  out.constant = Array(DType::f64, {e});
  for (Index c = 0; c < e; ++c) {
    double sum = weights.bo.empty() ? 0 : weights.bo.at(c);
    for (Index h = 0; h < m && !weights.bv.empty(); ++h)
      for (Index a = 0; a < p; ++a)
        sum += out.o.data<double>()[(h * p + a) * e + c] * weights.bv.at(h / shared * p + a);
    out.constant.data<double>()[c] = sum;
  }
}

void note_ignored(std::initializer_list<const std::vector<std::string>*> lists, const char* what,
                  const Execution& execution) {
  std::string names;
  for (const std::vector<std::string>* list : lists)
    for (const std::string& tensor : *list) names += (names.empty() ? "" : ", ") + tensor;
  if (!names.empty()) execution.note(join(what, " are no part of the layer and are ignored: ", names));
}

}  // namespace

void WeightsOptions::validate() const {
  require(heads >= 1, option("heads"), ": ", heads, " given, expected 1 or more");
  check_ranges(*this);
}

AttentionLayer layer_from_weights(const AttentionWeights& weights, const WeightsOptions& options,
                                  const Execution& execution) {
  options.validate();
  const auto& [q, k, v, o] = read_factors(weights, options);
  const HeadShape s = check_shapes(q, k, v, o, options.heads);
  require(options.restrict_dim <= q.in(), option("restrict"), ": ", options.restrict_dim, " given, but ",
          q.text, " has ", q.in(), " columns");
  const Index d = options.restrict_dim > 0 ? options.restrict_dim : q.in(),
              e = options.restrict_dim > 0 ? std::min(options.restrict_dim, o.out()) : o.out();
  MemoryBudget(execution).require(
      8.0 * static_cast<double>(s.heads) * static_cast<double>(d) * static_cast<double>(d + e),
      join("a layer of ", s.heads, " heads with d = ", d));
  AttentionLayer layer{Array(DType::f64, {s.heads, d, d}), Array(DType::f64, {s.heads, d, e})};
  parallel_for(thread_count(execution), s.heads, [&, &q = q, &k = k, &v = v, &o = o](Index h, int) {
    const Index group = h / (s.heads / s.groups), a = s.key_dim, b = s.value_dim;
    gemm(Trans::yes, Trans::no, 1 / std::sqrt(static_cast<double>(a)), q.values.view().block(h * a, 0, a, d),
         k.values.view().block(group * a, 0, a, d), 0.0,
         MatrixView<double>(layer.theta.data<double>() + h * d * d, d, d));
    gemm(Trans::yes, Trans::yes, 1.0, v.values.view().block(group * b, 0, b, d),
         o.values.view().block(0, h * b, e, b), 0.0,
         MatrixView<double>(layer.w.data<double>() + h * d * e, d, e));
  });
  note_ignored({&weights.biases, &weights.ignored}, "biases and norms", execution);
  return layer;
}

LayerHeads heads_from_weights(const AttentionWeights& weights, const WeightsOptions& given,
                              const std::optional<Rotary>& rotary, const Execution& execution) {
  WeightsOptions options = given;
  if (options.heads == 0) options.heads = weights.heads;
  require(options.heads > 0, option("heads"), ": none given, but ", weights.names.at(0), " ",
          format_shape(weights.q.shape()), " does not tell its number of heads");
  const Factors f = read_factors(weights, options);
  const HeadShape s = check_shapes(f.q, f.k, f.v, f.o, options.heads);
  const Index m = s.heads, d = f.q.in(), r = s.key_dim, p = s.value_dim, e = f.o.out(), shared = m / s.groups;
  const double scale = 1 / std::sqrt(static_cast<double>(r));
  LayerHeads out{.q = Array(DType::f64, {m, d, r}),
                 .k = Array(DType::f64, {m, d, r}),
                 .v = Array(DType::f64, {m, d, p}),
                 .o = Array(DType::f64, {m, p, e}),
                 .rotary = rotary};
  for (Index h = 0; h < m; ++h)
    for (Index i = 0; i < d; ++i) {
      for (Index a = 0; a < r; ++a) {
        out.q.data<double>()[(h * d + i) * r + a] = scale * f.q.values(h * r + a, i);
        out.k.data<double>()[(h * d + i) * r + a] = f.k.values(h / shared * r + a, i);
      }
      for (Index a = 0; a < p; ++a)
        out.v.data<double>()[(h * d + i) * p + a] = f.v.values(h / shared * p + a, i);
    }
  for (Index h = 0; h < m; ++h)
    for (Index a = 0; a < p; ++a)
      for (Index c = 0; c < e; ++c) out.o.data<double>()[(h * p + a) * e + c] = f.o.values(c, h * p + a);
  add_biases(weights, s, out);
  note_ignored({&weights.ignored}, "norms of queries and keys", execution);
  return out;
}

}  // namespace headlens

// Attention weights to a layer.
#include <algorithm>
#include <cmath>

#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "headlens/error.hpp"
#include "headlens/inspect.hpp"
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

}  // namespace

void WeightsOptions::validate() const {
  require(heads >= 1, option("heads"), ": ", heads, " given, expected 1 or more");
  check_ranges(*this);
}

AttentionLayer layer_from_weights(const AttentionWeights& weights, const WeightsOptions& options,
                                  const Execution& execution) {
  options.validate();
  const auto factor = [&](const Array& array, std::size_t i) {
    return read_factor(array, weights.names.at(i), options.layer);
  };
  const Factor q = factor(weights.q, 0), k = factor(weights.k, 1), v = factor(weights.v, 2),
               o = factor(weights.o, 3);
  const HeadShape s = check_shapes(q, k, v, o, options.heads);
  require(options.restrict_dim <= q.in(), option("restrict"), ": ", options.restrict_dim, " given, but ",
          q.text, " has ", q.in(), " columns");
  const Index d = options.restrict_dim > 0 ? options.restrict_dim : q.in(),
              e = options.restrict_dim > 0 ? std::min(options.restrict_dim, o.out()) : o.out();
  MemoryBudget(execution).require(
      8.0 * static_cast<double>(s.heads) * static_cast<double>(d) * static_cast<double>(d + e),
      join("a layer of ", s.heads, " heads with d = ", d));
  AttentionLayer layer{Array(DType::f64, {s.heads, d, d}), Array(DType::f64, {s.heads, d, e})};
  parallel_for(thread_count(execution), s.heads, [&](Index h, int) {
    const Index group = h / (s.heads / s.groups), a = s.key_dim, b = s.value_dim;
    gemm(Trans::yes, Trans::no, 1 / std::sqrt(static_cast<double>(a)), q.values.view().block(h * a, 0, a, d),
         k.values.view().block(group * a, 0, a, d), 0.0,
         MatrixView<double>(layer.theta.data<double>() + h * d * d, d, d));
    gemm(Trans::yes, Trans::yes, 1.0, v.values.view().block(group * b, 0, b, d),
         o.values.view().block(0, h * b, e, b), 0.0,
         MatrixView<double>(layer.w.data<double>() + h * d * e, d, e));
  });
  if (!weights.ignored.empty()) {
    std::string list;
    for (const std::string& tensor : weights.ignored) list += (list.empty() ? "" : ", ") + tensor;
    execution.note(join("biases and norms are no part of the layer and are ignored: ", list));
  }
  return layer;
}

}  // namespace headlens

#include "headlens/layer.hpp"

#include <algorithm>
#include <cmath>

#include "attention/attention_map.hpp"
#include "attention/packing.hpp"
#include "attention/ragged.hpp"
#include "attention/variant_file.hpp"
#include "attention/variant_map.hpp"
#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "headlens/arrays.hpp"
#include "headlens/error.hpp"
#include "linalg/multiply.hpp"

namespace headlens {
namespace {

Array as_double(Array array, const std::string& name, const char* what) {
  require(array.dtype() != DType::boolean, name, ": ", what, " is ", array.describe(), ", expected numbers");
  const Index size = array.size();
  if (array.dtype() != DType::f64) {
    Array out(DType::f64, array.shape());
    for (Index i = 0; i < size; ++i) out.data<double>()[i] = array.at(i);
    array = std::move(out);
  }
  const double* values = array.data<double>();
  const double* odd = std::find_if_not(values, values + size, [](double x) { return std::isfinite(x); });
  if (odd != values + size)
    require(false, name, ": ", what, " holds ", *odd, " at flat index ", odd - values,
            ", expected finite values");
  return array;
}

Array take(NamedArrays& arrays, const std::string& key, const std::string& file) {
  const auto found = arrays.find(key);
  require(found != arrays.end(), file, ": array '", key, "' is missing");
  return std::move(found->second);
}

void note_uncertified(const NamedArrays& arrays, const std::filesystem::path& path,
                      const Execution& execution) {
  const auto certified = arrays.find("certified");
  if (certified != arrays.end() && certified->second.size() == 1 && certified->second.at(0) == 0)
    execution.note(path.string() + ": this layer was kept without a certificate; its heads may be wrong");
}

// Q, K (m, d, r), V (m, d, s), O (m, s, e).
FactoredLayer take_factors(NamedArrays& arrays, const std::string& file) {
  FactoredLayer f;
  for (const auto& [key, array] : {std::pair{"Q", &f.q}, {"K", &f.k}, {"V", &f.v}, {"O", &f.o}}) {
    *array = as_double(take(arrays, key, file), file, key);
    require(array->rank() == 3 && array->size() > 0, file, ": ", key, " has shape ",
            format_shape(array->shape()), key[0] == 'O' ? ", expected (m, r, e)" : ", expected (m, d, r)");
  }
  require(f.k.shape() == f.q.shape(), file, ": Q has shape ", format_shape(f.q.shape()), " but K has shape ",
          format_shape(f.k.shape()), ", expected the same");
  require(f.v.dim(0) == f.q.dim(0) && f.v.dim(1) == f.q.dim(1), file, ": V has shape ",
          format_shape(f.v.shape()), ", expected (", f.q.dim(0), ", ", f.q.dim(1), ", r)");
  require(f.o.dim(0) == f.q.dim(0) && f.o.dim(1) == f.v.dim(2), file, ": O has shape ",
          format_shape(f.o.shape()), ", expected (", f.q.dim(0), ", ", f.v.dim(2), ", e)");
  return f;
}

AttentionLayer load_factors(NamedArrays& arrays, const std::string& file, const Execution& execution) {
  const FactoredLayer f = take_factors(arrays, file);
  const double d = static_cast<double>(f.q.dim(1)), e = static_cast<double>(f.o.dim(2));
  MemoryBudget(execution).require(8 * static_cast<double>(f.q.dim(0)) * d * (d + e),
                                  "the layer, multiplied out,");
  AttentionLayer layer = multiply_out(f);
  return make_layer(std::move(layer.theta), std::move(layer.w), file);
}

void mark(NamedArrays& arrays, Certified certified) {
  if (certified != Certified::not_said)
    arrays.emplace("certified", Array::from(std::vector<std::int64_t>{certified == Certified::yes}, {1}));
}

double largest_entry(const Array& array) {
  double largest = 0;
  for (Index i = 0; i < array.size(); ++i) largest = std::max(largest, std::abs(array.at(i)));
  return largest;
}

void require_finite(const AttentionLayer& layer, const Array& x, const Array& y) {
  const Array& logits = layer.variant.rotary ? layer.q : layer.theta;
  require(
      std::all_of(y.data<double>(), y.data<double>() + y.size(), [](double v) { return std::isfinite(v); }),
      "a logit or an output of the layer is not a finite number: ", layer.variant.rotary ? "Q" : "Theta",
      " has entries up to ", largest_entry(logits), ", W up to ", largest_entry(layer.w),
      ", the tokens up to ", largest_entry(x));
}

}  // namespace

AttentionLayer make_layer(Array theta, Array w, const std::string& name) {
  AttentionLayer layer{as_double(std::move(theta), name, "Theta"), as_double(std::move(w), name, "W")};
  const auto &t = layer.theta.shape(), &v = layer.w.shape();
  require(t.size() == 3 && t[0] > 0 && t[1] > 0 && t[1] == t[2], name, ": Theta has shape ", format_shape(t),
          ", expected (m, d, d)");
  require(v.size() == 3 && v[0] == t[0] && v[1] == t[1] && v[2] > 0, name, ": W has shape ", format_shape(v),
          ", expected (", t[0], ", ", t[1], ", e)");
  return layer;
}

Examples make_examples(Array x, Array y, const std::string& name) {
  Examples examples{as_double(std::move(x), name, "X"), as_double(std::move(y), name, "Y")};
  const auto &a = examples.x.shape(), &b = examples.y.shape();
  require(a.size() == 3, name, ": X has shape ", format_shape(a), ", expected (n, k, d)");
  require(a[0] > 0 && a[2] > 0, name, ": there are no examples (X has shape ", format_shape(a), ")");
  require(a[1] >= 2, name, ": X has ", a[1],
          " tokens per example, expected 2 or more: attention over one token says nothing");
  require(b.size() == 3 && b[0] == a[0] && b[1] == a[1] && b[2] > 0, name, ": X has shape ", format_shape(a),
          " but Y has shape ", format_shape(b), ", expected (", a[0], ", ", a[1], ", e)");
  return examples;
}

std::optional<FactoredLayer> load_factored_layer(const std::filesystem::path& path,
                                                 const Execution& execution) {
  NamedArrays arrays = read_npz(path, MemoryBudget(execution).limit_bytes());
  if (arrays.count("Theta") > 0 || arrays.count("Q") == 0) return std::nullopt;
  const LayerVariant variant = take_variant(arrays, path.string()).variant;
  if (!variant.plain()) return std::nullopt;
  note_uncertified(arrays, path, execution);
  FactoredLayer out = take_factors(arrays, path.string());
  out.kv_groups = variant.kv_groups;
  return out;
}

AttentionLayer load_layer(const std::filesystem::path& path, const Execution& execution) {
  NamedArrays arrays = read_npz(path, MemoryBudget(execution).limit_bytes());
  note_uncertified(arrays, path, execution);
  AttentionLayer parts = take_variant(arrays, path.string());
  if (parts.variant.rotary) return check_layer(std::move(parts), path.string());
  AttentionLayer layer;
  if (arrays.count("Theta") == 0 && arrays.count("Q") > 0) {
    layer = load_factors(arrays, path.string(), execution);
  } else {
    Array theta = take(arrays, "Theta", path.string());
    layer = make_layer(std::move(theta), take(arrays, "W", path.string()), path.string());
  }
  parts.theta = std::move(layer.theta);
  parts.w = std::move(layer.w);
  return check_layer(std::move(parts), path.string());
}

void save_layer(const std::filesystem::path& path, const AttentionLayer& layer, Certified certified) {
  NamedArrays arrays{{"W", layer.w}};
  if (!layer.variant.rotary) arrays.emplace("Theta", layer.theta);
  add_variant(layer, arrays);
  mark(arrays, certified);
  write_npz(path, arrays);
}

void save_layer(const std::filesystem::path& path, const FactoredLayer& factors, Certified certified) {
  NamedArrays arrays{{"Q", factors.q}, {"K", factors.k}, {"V", factors.v}, {"O", factors.o}};
  add_groups(factors.kv_groups, arrays);
  mark(arrays, certified);
  write_npz(path, arrays);
}

Examples load_examples(const std::filesystem::path& path, const Execution& execution) {
  NamedArrays arrays = read_npz(path, MemoryBudget(execution).limit_bytes());
  pad_ragged(arrays, path.string(), execution);
  Array x = take(arrays, "X", path.string()), y = take(arrays, "Y", path.string());
  const auto part = [&](const char* key) {
    const auto found = arrays.find(key);
    return found == arrays.end() ? Array() : found->second;
  };
  return make_partial_examples(std::move(x), std::move(y), part("lengths"), part("observed"), path.string());
}

Tokens make_tokens(Array x, const Array& lengths, const std::string& name) {
  require(x.rank() == 3 && x.size() > 0, name, ": X has shape ", format_shape(x.shape()),
          ", expected (n, k, d)");
  Tokens out{std::move(x)};
  if (lengths.size() > 0) out.lengths = read_lengths(lengths, out.x, name);
  if (!out.lengths.empty()) out.x = without_padding(out.x, out.lengths);
  out.x = as_double(std::move(out.x), name, "X");
  return out;
}

Tokens load_tokens(const std::filesystem::path& path, const Execution& execution) {
  NamedArrays arrays = read_npz(path, MemoryBudget(execution).limit_bytes());
  pad_ragged(arrays, path.string(), execution);
  const auto lengths = arrays.find("lengths");
  const Array own = lengths == arrays.end() ? Array() : lengths->second;
  return make_tokens(take(arrays, "X", path.string()), own, path.string());
}

void save_examples(const std::filesystem::path& path, const Examples& examples) {
  NamedArrays arrays{{"X", examples.x}, {"Y", examples.y}};
  if (!examples.lengths.empty())
    arrays.emplace("lengths",
                   Array::from(std::vector<std::int64_t>(examples.lengths.begin(), examples.lengths.end()),
                               {examples.count()}));
  if (examples.seen.size() > 0) arrays.emplace("observed", examples.seen);
  write_npz(path, arrays);
}

Array apply_layer(const AttentionLayer& layer, const Array& x, const Execution& execution) {
  require(x.rank() == 3 && x.dim(2) == layer.dim(), "X has shape ", format_shape(x.shape()),
          ", expected (n, k, ", layer.dim(), ")");
  const Index n = x.dim(0), k = x.dim(1), d = layer.dim(), m = layer.heads(), e = layer.outputs();
  if (!layer.variant.plain()) return apply_layer(layer, Tokens{x}, execution);
  const int threads = thread_count(execution);
  const Matrix<double> theta = pack_theta(layer.theta), w = pack_w(layer.w);
  Array y(DType::f64, {n, k, e});
  // A few thousand rows at a time: P and Phi stay small however many examples there are.
  const Index step = std::max<Index>(1, 4096 / k);
  for (Index first = 0; first < n; first += step) {
    execution.check_cancelled();
    const Index count = std::min(step, n - first);
    const MatrixView<const double> rows(x.data<double>() + first * k * d, count * k, d);
    Matrix<double> p(count * k * m, k), phi(count * k, m * d);
    AttentionMap<double>(rows, k, m, threads).evaluate(theta, p, phi);
    multiply(Trans::no, Trans::no, 1.0, phi.view(), w.view(), 0.0,
             MatrixView<double>(y.data<double>() + first * k * e, count * k, e), threads);
  }
  require_finite(layer, x, y);
  return y;
}

Array apply_layer(const AttentionLayer& layer, const Tokens& tokens, const Execution& execution) {
  const Array& x = tokens.x;
  if (layer.variant.plain() && tokens.lengths.empty()) return apply_layer(layer, x, execution);
  require(x.rank() == 3 && x.dim(2) == layer.dim(), "X has shape ", format_shape(x.shape()),
          ", expected (n, k, ", layer.dim(), ")");
  const Heed heeding(execution);
  const Index n = x.dim(0), k = x.dim(1), e = layer.outputs();
  Array y(DType::f64, {n, k, e});
  const Matrix<double> f =
      apply_variant(shape_of(layer), pack_parameters(layer), pack_readout(layer),
                    {x.data<double>(), n * k, layer.dim()}, k, tokens.lengths, thread_count(execution));
  copy_rows(f, MatrixView<double>(y.data<double>(), n * k, e));
  require_finite(layer, x, y);
  return y;
}

}  // namespace headlens

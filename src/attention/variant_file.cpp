#include "attention/variant_file.hpp"

#include <algorithm>
#include <cmath>

#include "headlens/error.hpp"
#include "linalg/blas.hpp"

namespace headlens {
namespace {

Array in_double(const Array& array, const std::string& name, const char* what) {
  Array out(DType::f64, array.shape());
  for (Index i = 0; i < array.size(); ++i) {
    const double value = out.data<double>()[i] = array.at(i);
    require(std::isfinite(value), name, ": ", what, " holds ", value, " at flat index ", i,
            ", expected finite values");
  }
  return out;
}

const Array* find(const NamedArrays& arrays, const char* key) {
  const auto found = arrays.find(key);
  return found == arrays.end() ? nullptr : &found->second;
}

const Array& need(const NamedArrays& arrays, const char* key, const std::string& file) {
  const Array* array = find(arrays, key);
  require(array != nullptr, file, ": array '", key, "' is missing: a layer with rotary positions has it");
  return *array;
}

// The whole number from 0 to `most` under this name; nothing where there is none.
std::optional<Index> find_count(const NamedArrays& arrays, const char* key, double most,
                                const std::string& file) {
  const Array* array = find(arrays, key);
  if (!array) return std::nullopt;
  require(array->size() == 1, file, ": ", key, " is ", array->describe(), ", expected one number");
  const double value = array->at(0);
  require(value >= 0 && value <= most && value == std::floor(value), file, ": ", key, " is ", value,
          ", expected a whole number from 0 to ", most);
  return static_cast<Index>(value);
}

// V (m, d, s) and O (m, s, e), multiplied.
Array product_of(const Array& v, const Array& o, const std::string& file) {
  require(v.rank() == 3 && o.rank() == 3 && v.dim(0) == o.dim(0) && v.dim(2) == o.dim(1) && v.size() > 0 &&
              o.size() > 0,
          file, ": V has shape ", format_shape(v.shape()), " and O has shape ", format_shape(o.shape()),
          ", expected (m, d, s) and (m, s, e)");
  Array w(DType::f64, {v.dim(0), v.dim(1), o.dim(2)});
  const auto slice = [](const Array& a, Index i) {
    return MatrixView<const double>(a.data<double>() + i * a.dim(1) * a.dim(2), a.dim(1), a.dim(2));
  };
  for (Index i = 0; i < v.dim(0); ++i)
    gemm(Trans::no, Trans::no, 1.0, slice(v, i), slice(o, i), 0.0,
         MatrixView<double>(w.data<double>() + i * v.dim(1) * o.dim(2), v.dim(1), o.dim(2)));
  return w;
}

void check_rotary(const AttentionLayer& layer, const std::string& name) {
  const auto &w = layer.w.shape(), &q = layer.q.shape();
  require(w.size() == 3 && layer.w.size() > 0, name, ": W has shape ", format_shape(w),
          ", expected (m, d, e)");
  require(q.size() == 3 && q[0] == w[0] && q[1] == w[1] && q[2] > 0 && layer.k.shape() == q, name,
          ": Q has shape ", format_shape(q), " and K has shape ", format_shape(layer.k.shape()),
          ", expected (", w[0], ", ", w[1], ", r) for both");
  require(layer.variant.rotary->pairs(q[2]) > 0, name, ": rotary positions turn pairs of columns, but Q has ",
          q[2], " and ", name, " says that a share of ", layer.variant.rotary->share, " is turned");
}

}  // namespace

std::optional<Rotary> read_rotary_array(const NamedArrays& arrays, const std::string& file) {
  const Array* array = find(arrays, "rotary");
  if (!array) return std::nullopt;
  const bool three = array->size() == 3;
  const double base = three ? array->at(0) : 0, layout = three ? array->at(1) : 0,
               share = three ? array->at(2) : 0;
  require(base > 1 && std::isfinite(base) && (layout == 0 || layout == 1) && share > 0 && share <= 1, file,
          ": rotary is ", array->describe(),
          ", expected three numbers: a base above 1, the layout (0 half, 1 interleaved), the share that is "
          "turned");
  return Rotary{base, layout == 0 ? RotaryLayout::half : RotaryLayout::interleaved, share};
}

Mask read_mask(const NamedArrays& arrays, const std::string& file) {
  return find_count(arrays, "causal", 1, file).value_or(0) == 1 ? Mask::causal : Mask::none;
}

AttentionLayer take_variant(NamedArrays& arrays, const std::string& file) {
  AttentionLayer layer;
  layer.variant.mask = read_mask(arrays, file);
  layer.variant.kv_groups = find_count(arrays, "kv_groups", 1e6, file).value_or(0);
  for (const auto& [key, to] : {std::pair{"query_bias", &layer.query_bias}, {"constant", &layer.constant}})
    if (const Array* array = find(arrays, key)) {
      layer.variant.bias = true;
      *to = in_double(*array, file, key);
    }
  layer.variant.rotary = read_rotary_array(arrays, file);
  if (!layer.variant.rotary) return layer;
  layer.q = in_double(need(arrays, "Q", file), file, "Q");
  layer.k = in_double(need(arrays, "K", file), file, "K");
  if (const Array* w = find(arrays, "W"))
    layer.w = in_double(*w, file, "W");
  else
    layer.w = product_of(in_double(need(arrays, "V", file), file, "V"),
                         in_double(need(arrays, "O", file), file, "O"), file);
  return layer;
}

void add_groups(Index kv_groups, NamedArrays& arrays) {
  if (kv_groups > 0)
    arrays.emplace("kv_groups",
                   Array::from(std::vector<std::int64_t>{static_cast<std::int64_t>(kv_groups)}, {1}));
}

void add_variant(const AttentionLayer& layer, NamedArrays& arrays) {
  const LayerVariant& variant = layer.variant;
  if (variant.mask == Mask::causal) arrays.emplace("causal", Array::from(std::vector<std::int64_t>{1}, {1}));
  add_groups(variant.kv_groups, arrays);
  if (variant.bias) {
    arrays.emplace("query_bias", layer.query_bias);
    arrays.emplace("constant", layer.constant);
  }
  if (!variant.rotary) return;
  arrays.emplace("Q", layer.q);
  arrays.emplace("K", layer.k);
  const double layout = variant.rotary->layout == RotaryLayout::half ? 0 : 1;
  arrays.emplace("rotary",
                 Array::from(std::vector<double>{variant.rotary->base, layout, variant.rotary->share}, {3}));
}

AttentionLayer check_layer(AttentionLayer layer, const std::string& name) {
  if (layer.variant.rotary)
    check_rotary(layer, name);
  else {
    AttentionLayer plain = make_layer(std::move(layer.theta), std::move(layer.w), name);
    layer.theta = std::move(plain.theta);
    layer.w = std::move(plain.w);
  }
  require(layer.variant.kv_groups >= 0 &&
              (layer.variant.kv_groups == 0 || layer.heads() % layer.variant.kv_groups == 0),
          name, ": kv_groups is ", layer.variant.kv_groups, ", which does not divide ", layer.heads(),
          " heads");
  if (!layer.variant.bias) return layer;
  const std::vector<Index> u{layer.heads(), layer.dim()}, c{layer.outputs()};
  if (layer.query_bias.size() == 0) layer.query_bias = Array(DType::f64, u);
  if (layer.constant.size() == 0) layer.constant = Array(DType::f64, c);
  require(layer.query_bias.shape() == u, name, ": query_bias has shape ",
          format_shape(layer.query_bias.shape()), ", expected ", format_shape(u));
  require(layer.constant.shape() == c, name, ": constant has shape ", format_shape(layer.constant.shape()),
          ", expected ", format_shape(c));
  return layer;
}

void require_plain(const AttentionLayer& layer, const std::string& reader) {
  require(layer.variant.plain(), reader,
          " reads plain layers, without mask, biases and positions; this layer has: ",
          headlens::name(layer.variant));
}

std::vector<Index> read_lengths(const Array& lengths, const Array& x, const std::string& name) {
  require(lengths.shape() == std::vector<Index>{x.dim(0)} && lengths.dtype() != DType::boolean, name,
          ": lengths is ", lengths.describe(), ", expected whole numbers (", x.dim(0), ",)");
  std::vector<Index> out;
  for (Index i = 0; i < lengths.size(); ++i) {
    const double length = lengths.at(i);
    require(length >= 1 && length <= static_cast<double>(x.dim(1)) && length == std::floor(length), name,
            ": lengths holds ", length, " at index ", i, ", expected whole numbers from 1 to ", x.dim(1),
            ", the tokens of an example");
    out.push_back(static_cast<Index>(length));
  }
  const bool full = std::all_of(out.begin(), out.end(), [&](Index length) { return length == x.dim(1); });
  return full ? std::vector<Index>{} : out;
}

Array without_padding(const Array& array, const std::vector<Index>& lengths) {
  Array out(DType::f64, array.shape());
  const Index k = array.dim(1), width = array.dim(2);
  for (std::size_t i = 0; i < lengths.size(); ++i)
    for (Index j = 0; j < lengths[i] * width; ++j) {
      const Index at = static_cast<Index>(i) * k * width + j;
      out.data<double>()[at] = array.at(at);
    }
  return out;
}

Examples make_examples(Array x, Array y, const Array& lengths, const std::string& name) {
  require(x.rank() == 3 && y.rank() == 3, name, ": X has shape ", format_shape(x.shape()),
          " and Y has shape ", format_shape(y.shape()), ", expected (n, k, d) and (n, k, e)");
  std::vector<Index> own = read_lengths(lengths, x, name);
  if (own.empty() || y.dim(0) != x.dim(0) || y.dim(1) != x.dim(1))
    return make_examples(std::move(x), std::move(y), name);
  Examples out = make_examples(without_padding(x, own), without_padding(y, own), name);
  out.lengths = std::move(own);
  return out;
}

namespace {

template <class T>
bool any_nan(const Array& array) {
  const T* first = array.data<T>();
  return std::any_of(first, first + array.size(), [](T value) { return std::isnan(value); });
}
bool holds_nan(const Array& array) {
  if (array.dtype() == DType::f64) return any_nan<double>(array);
  return array.dtype() == DType::f32 && any_nan<float>(array);
}

// (n, k, e) of 1 and 0: what `observed` says, whatever its type, and 0 where y is nan.
Array seen_labels(const Array& y, const Array& observed, const std::string& name) {
  const std::vector<Index> rows{y.dim(0), y.dim(1)};
  require(observed.size() == 0 || observed.shape() == y.shape() || observed.shape() == rows, name,
          ": observed has shape ", format_shape(observed.shape()), ", expected ", format_shape(rows), " or ",
          format_shape(y.shape()));
  Array out(DType::f64, y.shape());
  const Index each = observed.size() > 0 ? y.size() / observed.size() : 1;
  for (Index i = 0; i < y.size(); ++i) {
    const double said = observed.size() > 0 ? observed.at(i / each) : 1;
    require(said == 0 || said == 1, name, ": observed holds ", said, " at flat index ", i / each,
            ", expected true and false, or 1 and 0");
    out.data<double>()[i] = said != 0 && !std::isnan(y.at(i)) ? 1 : 0;
  }
  return out;
}

// Labels of padding are neither there nor missing.
void count_padding(const std::vector<Index>& lengths, Array& seen) {
  const Index k = seen.dim(1), e = seen.dim(2);
  for (std::size_t i = 0; i < lengths.size(); ++i)
    std::fill_n(seen.data<double>() + (static_cast<Index>(i) * k + lengths[i]) * e, (k - lengths[i]) * e,
                1.0);
}

}  // namespace

Examples make_partial_examples(Array x, Array y, const Array& lengths, const Array& observed,
                               const std::string& name) {
  require(x.rank() == 3 && y.rank() == 3, name, ": X has shape ", format_shape(x.shape()),
          " and Y has shape ", format_shape(y.shape()), ", expected (n, k, d) and (n, k, e)");
  const bool whole = observed.size() == 0 && !holds_nan(y);
  if (whole && lengths.size() == 0) return make_examples(std::move(x), std::move(y), name);
  if (whole) return make_examples(std::move(x), std::move(y), lengths, name);
  require(y.dtype() != DType::boolean, name, ": Y is ", y.describe(), ", expected numbers");
  Array seen = seen_labels(y, observed, name), labels(DType::f64, y.shape());
  for (Index i = 0; i < y.size(); ++i) labels.data<double>()[i] = seen.data<double>()[i] != 0 ? y.at(i) : 0.0;
  Examples out = lengths.size() > 0 ? make_examples(std::move(x), std::move(labels), lengths, name)
                                    : make_examples(std::move(x), std::move(labels), name);
  count_padding(out.lengths, seen);
  const double* first = seen.data<double>();
  if (std::all_of(first, first + seen.size(), [](double each) { return each == 1; })) return out;
  const Index e = seen.dim(2);
  for (Index j = 0; j < e; ++j) {
    bool any = false;
    for (Index i = j; i < seen.size() && !any; i += e) any = first[i] == 1;
    require(any, name, ": output ", j, " has no label in any example, so that nothing tells of it");
  }
  out.seen = std::move(seen);
  return out;
}

}  // namespace headlens

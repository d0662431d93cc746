// Model files: safetensors with `heads` (or the sets that infinitely many heads leave), `values`,
// `intercept`, and every option in the metadata. Nothing that changes from run to run (time, threads, memory)
// is stored: same data, options and seed give the same bytes.
#include "io/model_file.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/memory.hpp"
#include "headlens/arrays.hpp"
#include "headlens/error.hpp"
#include "headlens/info.hpp"
#include "headlens/model.hpp"

namespace headlens {
namespace {

constexpr const char* kFormat = "headlens-model";
constexpr const char* kFormatVersion = "1";
constexpr std::string_view kReportPrefix = "report.";

std::string format_classes(const std::vector<std::int64_t>& classes) {
  return fmt::format("{}", fmt::join(classes, ","));
}

// Typed look-ups in the metadata, with errors that name the file and the key.
class Metadata {
 public:
  Metadata(const std::map<std::string, std::string>& entries, std::string file)
      : entries_(entries), file_(std::move(file)) {}

  const std::string& text(const std::string& key) const {
    const auto found = entries_.find(key);
    require(found != entries_.end(), file_, ": not a headlens model: metadata '", key, "' is missing");
    return found->second;
  }
  template <class Number>
  Number number(const std::string& key) const {
    return number_from<Number>(key, text(key));
  }
  std::vector<std::int64_t> numbers(const std::string& key) const {
    std::vector<std::int64_t> out;
    const std::string& all = text(key);
    for (std::size_t begin = 0; begin < all.size();) {
      const std::size_t end = std::min(all.find(',', begin), all.size());
      out.push_back(number_from<std::int64_t>(key, all.substr(begin, end - begin)));
      begin = end + 1;
    }
    return out;
  }
  template <class Enum>
  Enum choice(const std::string& key) const {
    try {
      return parse<Enum>(text(key));
    } catch (const Error& error) {
      throw Error(ErrorCode::misuse, message(file_, ": metadata '", key, "': ", error.text()));
    }
  }
  bool flag(const std::string& key) const {
    const std::string& value = text(key);
    require(value == "true" || value == "false", file_, ": metadata '", key, "' is '", value,
            "', expected true or false");
    return value == "true";
  }

 private:
  template <class Number>
  Number number_from(const std::string& key, const std::string& value) const {
    Number out{};
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), out);
    require(error == std::errc() && end == value.data() + value.size(), file_, ": metadata '", key, "' is '",
            value, "', expected a number");
    return out;
  }

  const std::map<std::string, std::string>& entries_;
  std::string file_;
};

DType type_of(Precision precision) { return precision == Precision::f32 ? DType::f32 : DType::f64; }

void require_tensor(const Array& array, const char* what, const std::vector<Index>& shape, DType type,
                    const std::string& file) {
  require(array.shape() == shape && array.dtype() == type, file, ": tensor '", what, "' is ",
          array.describe(), ", expected ", name(type), " ", format_shape(shape));
  for (Index i = 0; i < array.size(); ++i)
    require(std::isfinite(array.at(i)), file, ": tensor '", what, "' holds a value that is not finite");
}

// (m, q) dual coefficients and the sets they belong to.
void check_support(const Model& model, const std::string& file) {
  const Support& s = model.support;
  const DType type = type_of(model.features.precision);
  const Index m = s.query.rank() > 0 ? s.query.dim(0) : 0;
  require(m >= 1, file, ": tensor 'query' holds no sets");
  require_tensor(s.query, "query", {m, model.dim}, type, file);
  if (s.offsets.empty()) {
    const Index keys = s.keys.rank() == 3 ? s.keys.dim(1) : 0;
    require(keys >= 1 && (model.keys == 0 || model.keys == keys), file, ": tensor 'keys' is ",
            s.keys.describe(), ", expected ", m, " sets of ",
            model.keys == 0 ? "some" : std::to_string(model.keys), " keys");
    require_tensor(s.keys, "keys", {m, keys, model.dim}, type, file);
  } else {
    bool rising = static_cast<Index>(s.offsets.size()) == m + 1 && s.offsets.front() == 0 && model.keys == 0;
    for (std::size_t i = 1; i < s.offsets.size(); ++i) rising = rising && s.offsets[i - 1] < s.offsets[i];
    require(rising, file, ": tensor 'offsets' does not cut 'keys' into ", m, " sets");
    require_tensor(s.keys, "keys", {static_cast<Index>(s.offsets.back()), model.dim}, type, file);
  }
  require_tensor(model.values, "values", {m, model.outputs}, DType::f64, file);
  require_tensor(model.intercept, "intercept", {model.outputs}, DType::f64, file);
}

void check_heads(const Model& model, const std::string& file) {
  const bool mlp = model.features.kind == ModelKind::mlp;
  const DType type = type_of(model.features.precision);
  const Index m = model.features.heads, extended = model.dim + 1, q = model.outputs;
  using Shape = std::vector<Index>;
  require_tensor(model.heads, "heads",
                 mlp ? Shape{m, (model.keys + 1) * extended} : Shape{m, extended, extended}, type, file);
  require_tensor(model.values, "values", mlp ? Shape{m, q} : Shape{m, extended, q}, type, file);
  require_tensor(model.intercept, "intercept", {q}, type, file);
}

void check_tensors(const Model& model, const std::string& file) {
  constexpr Index kLargest = Index{1} << 31;
  const auto within = [&](Index value, Index least) { return value >= least && value < kLargest; };
  const bool mlp = model.features.kind == ModelKind::mlp;
  require(within(model.dim, 1) && within(model.outputs, 1) &&
              (model.features.infinite() || within(model.features.heads, 1)) &&
              within(model.keys, mlp ? 1 : 0),
          file, ": metadata holds an impossible size");
  if (const auto& mean = model.features.mean) {
    const Index size = mean->dim(0);
    require(size == model.dim || size == model.dim + 1, file, ": tensor 'mean' is ", mean->describe(),
            ", expected ", format_shape({model.dim, model.dim}), " or one more");
    require_tensor(*mean, "mean", {size, size}, DType::f64, file);
  }
  model.features.infinite() ? check_support(model, file) : check_heads(model, file);
  const Index q = model.outputs;
  const auto classes = static_cast<Index>(model.classes.size());
  require(classes == 0 || (classes == 2 && q == 1) || (classes > 2 && q == classes), file, ": ", classes,
          " classes do not fit ", q, " outputs");
  for (std::size_t i = 1; i < model.classes.size(); ++i)
    require(model.classes[i - 1] < model.classes[i], file, ": classes are not in increasing order");
}

Array take(NamedArrays& tensors, const std::string& key, const std::string& file) {
  const auto found = tensors.find(key);
  require(found != tensors.end(), file, ": not a headlens model: tensor '", key, "' is missing");
  return std::move(found->second);
}

Support take_support(NamedArrays& tensors, const std::string& file) {
  Support support{take(tensors, "query", file), take(tensors, "keys", file), {}};
  if (!tensors.contains("offsets")) return support;
  const Array offsets = take(tensors, "offsets", file);
  require(offsets.dtype() == DType::i64 && offsets.rank() == 1, file, ": tensor 'offsets' is ",
          offsets.describe(), ", expected int64 (m + 1)");
  support.offsets.assign(offsets.data<std::int64_t>(), offsets.data<std::int64_t>() + offsets.size());
  require(!support.offsets.empty(), file, ": tensor 'offsets' is empty");
  return support;
}

// The tensor of random weights is called `neurons` in mlp models.
const char* heads_tensor(ModelKind kind) { return kind == ModelKind::mlp ? "neurons" : "heads"; }

}  // namespace

void save_model(const std::filesystem::path& path, const Model& model) {
  const FeatureOptions& f = model.features;
  TensorFile file;
  if (f.infinite()) {
    const Support& support = model.support;
    file.tensors["query"] = support.query;
    file.tensors["keys"] = support.keys;
    if (!support.offsets.empty())
      file.tensors["offsets"] = Array::from(support.offsets, {static_cast<Index>(support.offsets.size())});
  } else {
    file.tensors[heads_tensor(f.kind)] = model.heads;
  }
  file.tensors["values"] = model.values;
  file.tensors["intercept"] = model.intercept;
  if (f.mean) file.tensors["mean"] = Array::from(f.mean->to_doubles(), f.mean->shape());
  auto& meta = file.metadata;
  meta["format"] = kFormat;
  meta["format_version"] = kFormatVersion;
  meta["headlens_version"] = version();
  meta["headlens_commit"] = commit();
  meta["model"] = name(f.kind);
  meta["heads"] = f.infinite() ? "inf" : fmt::format("{}", f.heads);
  meta["bias_scale"] = fmt::format("{}", f.bias_scale.value());
  meta["weight_scale"] = fmt::format("{}", f.weight_scale.value());
  meta["score"] = name(f.score);
  meta["positions"] = name(f.positions);
  meta["precision"] = name(f.precision);
  meta["seed"] = fmt::format("{}", f.seed);
  if (f.head_rank) meta["head_rank"] = fmt::format("{}", *f.head_rank);
  meta["loss"] = name(model.loss);
  meta["dim"] = fmt::format("{}", model.dim);
  meta["keys"] = fmt::format("{}", model.keys);
  meta["outputs"] = fmt::format("{}", model.outputs);
  meta["vector_targets"] = model.vector_targets ? "true" : "false";
  meta["sequence"] = model.sequence ? "true" : "false";
  meta["classes"] = format_classes(model.classes);
  for (const auto& [key, value] : model.report) meta[std::string(kReportPrefix) + key] = value;
  write_safetensors(path, file);
}

Model model_from_tensors(TensorFile file, const std::string& name) {
  const Metadata meta(file.metadata, name);
  require(meta.text("format") == kFormat, name, ": not a headlens model: format is '", meta.text("format"),
          "'");
  require(meta.text("format_version") == kFormatVersion, name, ": model format version ",
          meta.text("format_version"), ", this headlens reads version ", kFormatVersion);
  Model model;
  FeatureOptions& f = model.features;
  f.kind = meta.choice<ModelKind>("model");
  f.heads = meta.text("heads") == "inf" ? kInfiniteHeads : meta.number<Index>("heads");
  f.bias_scale = meta.number<double>("bias_scale");
  f.weight_scale = meta.number<double>("weight_scale");
  f.score = meta.choice<Score>("score");
  f.positions = meta.choice<Positions>("positions");
  f.precision = meta.choice<Precision>("precision");
  f.seed = meta.number<std::uint64_t>("seed");
  if (file.metadata.contains("head_rank")) f.head_rank = meta.number<Index>("head_rank");
  if (file.tensors.contains("mean")) f.mean = take(file.tensors, "mean", name);
  f.validate();
  model.loss = meta.choice<Loss>("loss");
  model.dim = meta.number<Index>("dim");
  model.keys = meta.number<Index>("keys");
  model.outputs = meta.number<Index>("outputs");
  model.vector_targets = meta.flag("vector_targets");
  model.sequence = meta.flag("sequence");
  model.classes = meta.numbers("classes");
  for (const auto& [key, value] : file.metadata)
    if (key.starts_with(kReportPrefix)) model.report[key.substr(kReportPrefix.size())] = value;
  if (f.infinite())
    model.support = take_support(file.tensors, name);
  else
    model.heads = take(file.tensors, heads_tensor(f.kind), name);
  model.values = take(file.tensors, "values", name);
  model.intercept = take(file.tensors, "intercept", name);
  check_tensors(model, name);
  return model;
}

Model load_model(const std::filesystem::path& path, const Execution& execution) {
  return model_from_tensors(read_safetensors(path, MemoryBudget(execution).limit_bytes()), path.string());
}

}  // namespace headlens

// Files of automatic models: safetensors with the tensors of AutomaticModel under their names, and everything
// else in the metadata, one entry per member. The `format` differs from that of other models, so neither is
// taken for the other.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>

#include "automatic/scores.hpp"
#include "base/memory.hpp"
#include "headlens/arrays.hpp"
#include "headlens/automatic.hpp"
#include "headlens/error.hpp"
#include "headlens/info.hpp"

namespace headlens {
namespace automatic {
namespace {

constexpr const char* kFormat = "headlens-automatic-model";
constexpr const char* kVersion = "3";

// "attention 3 0.5; mean 0 1.2": kind, parameter and scale of every block.
std::string blocks_text(const AutomaticMember& member) {
  std::string out;
  for (const SetBlockInfo& block : member.blocks)
    out += fmt::format("{}{} {} {}", out.empty() ? "" : "; ", name(block.kind), block.parameter, block.scale);
  return out;
}

std::string member_text(const AutomaticMember& m) {
  return fmt::format("{} {} {} {} {}", m.gamma, m.relative_gamma, m.penalty, m.loo_error, m.weight);
}

std::vector<std::string> cut(const std::string& text, const std::string& between) {
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(between, begin), text.size());
    out.push_back(text.substr(begin, end - begin));
    begin = end + between.size();
  }
  return out;
}

class Reader {
 public:
  Reader(TensorFile file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}

  const std::string& text(const std::string& key) const {
    const auto found = file_.metadata.find(key);
    require(found != file_.metadata.end(), path_, ": not a headlens model: metadata '", key, "' is missing");
    return found->second;
  }
  template <class Number>
  Number number(const std::string& key, const std::string& value) const {
    Number out{};
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), out);
    bool good = error == std::errc() && end == value.data() + value.size();
    if constexpr (std::is_floating_point_v<Number>) good = good && std::isfinite(out);
    require(good, path_, ": metadata '", key, "' is '", value, "', expected a number");
    return out;
  }
  template <class Number>
  Number number(const std::string& key) const {
    return number<Number>(key, text(key));
  }
  bool flag(const std::string& key) const {
    require(text(key) == "true" || text(key) == "false", path_, ": metadata '", key, "' is '", text(key),
            "', expected true or false");
    return text(key) == "true";
  }
  bool has(const std::string& key) const { return file_.tensors.contains(key); }
  // Of float64 numbers, all finite; -1 in the shape: any size from 1 on.
  Array tensor(const std::string& key, const std::vector<Index>& shape) {
    Array out = take(key);
    bool good = out.dtype() == DType::f64 && out.shape().size() == shape.size();
    for (std::size_t a = 0; good && a < shape.size(); ++a)
      good = shape[a] < 0 ? out.shape()[a] >= 1 : out.shape()[a] == shape[a];
    require(good, path_, ": tensor '", key, "' is ", out.describe(), ", expected float64 ",
            format_shape(shape));
    for (Index i = 0; i < out.size(); ++i)
      require(std::isfinite(out.data<double>()[i]), path_, ": tensor '", key,
              "' holds a value that is not finite");
    return out;
  }
  Array take(const std::string& key) {
    const auto found = file_.tensors.find(key);
    require(found != file_.tensors.end(), path_, ": not a headlens model: tensor '", key, "' is missing");
    return std::move(found->second);
  }
  const std::string& path() const { return path_; }

 private:
  TensorFile file_;
  std::string path_;
};

SetBlockInfo read_block(const Reader& reader, const std::string& key, const std::string& text) {
  const std::vector<std::string> words = cut(text, " ");
  require(words.size() == 3, reader.path(), ": metadata '", key, "' holds the block '", text, "'");
  for (int kind = 0; kind <= static_cast<int>(BlockKind::spread); ++kind)
    if (name(static_cast<BlockKind>(kind)) == words[0])
      return {static_cast<BlockKind>(kind), reader.number<double>(key, words[1]),
              reader.number<double>(key, words[2])};
  throw Error(ErrorCode::misuse,
              message(reader.path(), ": metadata '", key, "' holds the block '", text, "'"));
}

AutomaticMember read_member(const Reader& reader, Index c) {
  const std::string key = fmt::format("member.{}", c), blocks = key + ".blocks";
  AutomaticMember member;
  for (const std::string& one : cut(reader.text(blocks), "; "))
    member.blocks.push_back(read_block(reader, blocks, one));
  const std::vector<std::string> words = cut(reader.text(key), " ");
  require(words.size() == 5, reader.path(), ": metadata '", key, "' is '", reader.text(key),
          "', expected 5 numbers");
  member.gamma = reader.number<double>(key, words[0]);
  member.relative_gamma = reader.number<double>(key, words[1]);
  member.penalty = reader.number<double>(key, words[2]);
  member.loo_error = reader.number<double>(key, words[3]);
  member.weight = reader.number<double>(key, words[4]);
  require(member.gamma >= 0 && member.penalty > 0, reader.path(), ": metadata '", key,
          "' holds an impossible kernel: ", reader.text(key));
  return member;
}

void read_frame(Reader& reader, AutomaticModel& model) {
  TokenFrame& frame = model.frame;
  frame.mean = reader.tensor("mean", {model.dim});
  frame.width = reader.tensor("width", {model.dim});
  Index kept = 0;
  for (Index j = 0; j < model.dim; ++j) kept += frame.width.data<double>()[j] > 0;
  frame.head_keys = reader.tensor("head_keys", {-1, -1, kept});
  frame.head_queries =
      reader.tensor("head_queries", {kept + 1, frame.head_keys.dim(0), frame.head_keys.dim(1)});
  frame.frequencies = reader.tensor("frequencies", {-1, kept});
  if (reader.has("knots")) {
    frame.knots = reader.tensor("knots", {kept, kKnots});
    frame.scores = reader.tensor("scores", {kept, kKnots});
    for (Index j = 0; j < kept; ++j)
      require(std::is_sorted(frame.knots.data<double>() + j * kKnots,
                             frame.knots.data<double>() + (j + 1) * kKnots),
              reader.path(), ": tensor 'knots' does not rise along its rows");
  }
  frame.given_query = reader.flag("given_query");
  frame.score_unit = reader.number<double>("score_unit");
  frame.key_distance = reader.number<double>("key_distance");
  require(frame.key_distance > 0, reader.path(), ": metadata 'key_distance' is not above 0");
}

void read_support(Reader& reader, AutomaticModel& model) {
  Support& s = model.support;
  s.query = reader.tensor("query", {-1, model.dim});
  const Index m = s.query.dim(0);
  if (!reader.has("offsets")) {
    s.keys = reader.tensor("keys", {m, -1, model.dim});
    return;
  }
  const Array offsets = reader.take("offsets");
  require(offsets.dtype() == DType::i64 && offsets.shape() == std::vector<Index>{m + 1}, reader.path(),
          ": tensor 'offsets' is ", offsets.describe(), ", expected int64 ", format_shape({m + 1}));
  s.offsets.assign(offsets.data<std::int64_t>(), offsets.data<std::int64_t>() + m + 1);
  bool rising = s.offsets.front() == 0;
  for (std::size_t i = 1; i < s.offsets.size(); ++i) rising = rising && s.offsets[i - 1] < s.offsets[i];
  require(rising, reader.path(), ": tensor 'offsets' does not cut 'keys' into ", m, " sets");
  s.keys = reader.tensor("keys", {static_cast<Index>(s.offsets.back()), model.dim});
}

void read_uncertainty(Reader& reader, AutomaticModel& model) {
  const Index m = model.support.query.dim(0);
  model.loo_error = reader.number<double>("loo_error");
  if (model.is_classifier()) {
    model.slope = reader.number<double>("slope");
    model.loo_accuracy = reader.number<double>("loo_accuracy");
    return;
  }
  model.residuals = reader.tensor("residuals", {-1, model.outputs});
  model.noise = reader.tensor("noise", {model.outputs});
  model.spread = reader.tensor("spread", {m, -1});
  model.kernel_means = reader.tensor("kernel_means", {m});
}

void read_classes(const Reader& reader, AutomaticModel& model) {
  if (reader.text("classes").empty()) return;
  for (const std::string& word : cut(reader.text("classes"), ","))
    model.classes.push_back(reader.number<std::int64_t>("classes", word));
  bool rising = true;
  for (std::size_t i = 1; i < model.classes.size(); ++i)
    rising = rising && model.classes[i - 1] < model.classes[i];
  const auto count = static_cast<Index>(model.classes.size());
  require(rising && count >= 2 && model.outputs == (count == 2 ? 1 : count), reader.path(), ": ", count,
          " classes do not fit ", model.outputs, " outputs");
}

}  // namespace
}  // namespace automatic

namespace {

void add_metadata(const AutomaticModel& model, std::map<std::string, std::string>& meta) {
  const TokenFrame& f = model.frame;
  meta["format"] = automatic::kFormat;
  meta["format_version"] = automatic::kVersion;
  meta["headlens_version"] = version();
  meta["headlens_commit"] = commit();
  meta["dim"] = fmt::format("{}", model.dim);
  meta["outputs"] = fmt::format("{}", model.outputs);
  meta["count"] = fmt::format("{}", model.count);
  meta["seed"] = fmt::format("{}", model.seed);
  meta["vector_targets"] = model.vector_targets ? "true" : "false";
  meta["sequence"] = model.sequence ? "true" : "false";
  meta["classes"] = fmt::format("{}", fmt::join(model.classes, ","));
  for (const auto& [key, value] : model.notes) meta["note." + key] = value;
  meta["given_query"] = f.given_query ? "true" : "false";
  meta["score_unit"] = fmt::format("{}", f.score_unit);
  meta["key_distance"] = fmt::format("{}", f.key_distance);
  meta["loo_error"] = fmt::format("{}", model.loo_error);
  meta["members"] = fmt::format("{}", model.members.size());
  for (std::size_t c = 0; c < model.members.size(); ++c) {
    meta[fmt::format("member.{}", c)] = automatic::member_text(model.members[c]);
    meta[fmt::format("member.{}.blocks", c)] = automatic::blocks_text(model.members[c]);
  }
}

}  // namespace

TensorFile tensors_of(const AutomaticModel& model) {
  TensorFile file;
  const TokenFrame& f = model.frame;
  file.tensors = {{"mean", f.mean},
                  {"width", f.width},
                  {"head_queries", f.head_queries},
                  {"head_keys", f.head_keys},
                  {"frequencies", f.frequencies},
                  {"query", model.support.query},
                  {"keys", model.support.keys},
                  {"values", model.values},
                  {"intercept", model.intercept}};
  if (f.by_scores()) {
    file.tensors["knots"] = f.knots;
    file.tensors["scores"] = f.scores;
  }
  const auto& offsets = model.support.offsets;
  if (!offsets.empty()) file.tensors["offsets"] = Array::from(offsets, {static_cast<Index>(offsets.size())});
  auto& meta = file.metadata;
  if (model.is_classifier()) {
    meta["slope"] = fmt::format("{}", model.slope);
    meta["loo_accuracy"] = fmt::format("{}", model.loo_accuracy.value_or(0));
  } else {
    file.tensors["residuals"] = model.residuals;
    file.tensors["noise"] = model.noise;
    file.tensors["spread"] = model.spread;
    file.tensors["kernel_means"] = model.kernel_means;
  }
  add_metadata(model, meta);
  return file;
}

void save_model(const std::filesystem::path& path, const AutomaticModel& model) {
  write_safetensors(path, tensors_of(model));
}

// From the header alone: other models may be large.
bool is_automatic_model(const std::filesystem::path& path) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none)) return false;
  std::ifstream file(path, std::ios::binary);
  std::uint64_t size = 0;
  file.read(reinterpret_cast<char*>(&size), sizeof size);
  constexpr std::uint64_t kLargestHeader = 100'000'000;  // of safetensors
  if (!file || size > std::min<std::uint64_t>(kLargestHeader, std::filesystem::file_size(path, none)))
    return false;
  std::string header(size, ' ');
  file.read(header.data(), static_cast<std::streamsize>(size));
  return file && header.find(fmt::format("\"format\":\"{}\"", automatic::kFormat)) != std::string::npos;
}

AutomaticModel load_automatic_model(const std::filesystem::path& path, const Execution& execution) {
  return automatic_model_from(read_safetensors(path, MemoryBudget(execution).limit_bytes()), path.string());
}

AutomaticModel automatic_model_from(TensorFile file, const std::string& path) {
  std::map<std::string, std::string> notes;
  for (const auto& [key, value] : file.metadata)
    if (key.starts_with("note.")) notes[key.substr(5)] = value;
  automatic::Reader reader(std::move(file), path);
  require(reader.text("format") == automatic::kFormat, path, ": not an automatic model: format is '",
          reader.text("format"), "'");
  require(reader.text("format_version") == automatic::kVersion, path, ": model format version ",
          reader.text("format_version"), ", this headlens reads version ", automatic::kVersion);
  AutomaticModel model;
  model.notes = std::move(notes);
  model.dim = reader.number<Index>("dim");
  model.outputs = reader.number<Index>("outputs");
  model.count = reader.number<Index>("count");
  model.seed = reader.number<std::uint64_t>("seed");
  model.vector_targets = reader.flag("vector_targets");
  model.sequence = reader.flag("sequence");
  const auto members = reader.number<Index>("members");
  constexpr Index kLargest = Index{1} << 31;
  require(model.dim >= 1 && model.dim < kLargest && model.outputs >= 1 && model.outputs < kLargest &&
              model.count >= 1 && members >= 1 && members < 1000,
          path, ": metadata holds an impossible size");
  automatic::read_classes(reader, model);
  automatic::read_frame(reader, model);
  automatic::read_support(reader, model);
  for (Index c = 0; c < members; ++c) model.members.push_back(automatic::read_member(reader, c));
  model.values = reader.tensor("values", {members, model.support.query.dim(0), model.outputs});
  model.intercept = reader.tensor("intercept", {model.outputs});
  automatic::read_uncertainty(reader, model);
  return model;
}

}  // namespace headlens

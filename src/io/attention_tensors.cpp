// Attention weights in a checkpoint: which tensors hold them, under every way of naming them.
#include <algorithm>
#include <string_view>
#include <utility>

#include "base/memory.hpp"
#include "headlens/arrays.hpp"
#include "headlens/error.hpp"
#include "headlens/inspect.hpp"

namespace headlens {
namespace {

using Names = std::vector<std::string>;

bool is_separator(char c) { return c == '.' || c == '/'; }

// The tensors of a file whose names begin with a prefix, up to a separator: layers.1 is not layers.10.
struct Checkpoint {
  std::string file;
  NamedArrays tensors;
  std::string prefix;

  bool has_prefix(std::string_view tensor) const {
    if (!tensor.starts_with(prefix)) return false;
    return prefix.empty() || is_separator(prefix.back()) || tensor.size() == prefix.size() ||
           is_separator(tensor[prefix.size()]);
  }

  Names ending_in(std::string_view suffix) const {
    Names found;
    for (const auto& [tensor, array] : tensors) {
      const std::size_t stem = tensor.size() - std::min(suffix.size(), tensor.size());
      if (has_prefix(tensor) && tensor.ends_with(suffix) && (stem == 0 || is_separator(tensor[stem - 1])))
        found.push_back(tensor);
    }
    return found;
  }

  // The one tensor that ends in the first of these suffixes that any tensor ends in; "" if none does.
  std::string find(const Names& suffixes) const {
    for (const std::string& suffix : suffixes) {
      const Names found = ending_in(suffix);
      if (found.empty()) continue;
      require(found.size() == 1, file, ": ", found.size(), " tensors end in '", suffix, "' ('", found.front(),
              "', '", found.back(), "'): choose one with a longer ", option("prefix"));
      return found.front();
    }
    return "";
  }

  std::string expect(const Names& suffixes) const {
    std::string found = find(suffixes);
    require(!found.empty(), file, ": no tensor", prefix.empty() ? "" : join(" under '", prefix, "'"),
            " ends in '", suffixes.front(), "'");
    return found;
  }
};

struct Naming {
  WeightsFormat format;
  Names q, k, v, o;  // suffixes, the likeliest first
};

const std::vector<Naming>& namings() {
  static const std::vector<Naming> all{
      {WeightsFormat::factors, {"W_Q"}, {"W_K"}, {"W_V"}, {"W_O"}},
      {WeightsFormat::torch, {"in_proj_weight"}, {}, {}, {"out_proj.weight"}},
      {WeightsFormat::hugging_face,
       {"q_proj.weight", "q_proj"},
       {"k_proj.weight", "k_proj"},
       {"v_proj.weight", "v_proj"},
       {"o_proj.weight", "out_proj.weight", "o_proj", "out_proj"}},
      // A BERT layer has other tensors that end in dense.weight.
      {WeightsFormat::hugging_face,
       {"query.weight", "query"},
       {"key.weight", "key"},
       {"value.weight", "value"},
       {"attention.output.dense.weight", "attention.dense.weight", "dense.weight", "dense"}}};
  return all;
}

const Naming& choose_naming(const Checkpoint& file, WeightsFormat format) {
  const Naming* chosen = nullptr;
  for (const Naming& naming : namings()) {
    if (format != WeightsFormat::automatic && naming.format != format) continue;
    const bool present = std::ranges::any_of(
        naming.q, [&](const std::string& suffix) { return !file.ending_in(suffix).empty(); });
    if (!present) continue;
    require(!chosen, file.file, ": attention weights under two kinds of names: choose with ",
            option("format"), " or ", option("prefix"));
    chosen = &naming;
  }
  const std::string where = file.prefix.empty() ? "" : join(" under '", file.prefix, "'");
  require(chosen, file.file, ": no attention weights", where, " of format ", name(format), " among its ",
          file.tensors.size(), " tensors", file.tensors.empty() ? "" : ", such as '",
          file.tensors.empty() ? "" : file.tensors.begin()->first, file.tensors.empty() ? "" : "'",
          " (expected W_Q .. W_O, in_proj_weight, q_proj .. o_proj or query .. dense)");
  return *chosen;
}

// Rows [part, part + 1) of three equal parts.
Array third_of_rows(const Array& array, Index part) {
  const Index rows = array.dim(0) / 3, cols = array.dim(1);
  Array out(DType::f64, {rows, cols});
  for (Index i = 0; i < rows * cols; ++i) out.data<double>()[i] = array.at(part * rows * cols + i);
  return out;
}

bool is_zero(const Array& array) {
  for (Index i = 0; i < array.size(); ++i)
    if (array.at(i) != 0) return false;
  return true;
}

// What stands beside the weights and changes attention, but has no place in a layer.
Names find_ignored(const Checkpoint& file, const Names& used) {
  Names candidates, ignored;
  for (const std::string& tensor : used) {
    const std::size_t last = tensor.find_last_of("./");
    const std::string stem = tensor.substr(0, last == std::string::npos ? 0 : last + 1);
    const std::string own = tensor.substr(stem.size());
    if (own.ends_with("weight"))
      candidates.push_back(tensor.substr(0, tensor.size() - 6) + "bias");
    else if (own.starts_with("W_"))
      candidates.push_back(stem + "b_" + own.substr(2));
    if (own == "in_proj_weight")
      for (const char* extra : {"bias_k", "bias_v"}) candidates.push_back(stem + extra);
    if (tensor.ends_with("q_proj.weight"))
      for (const char* extra : {"q_norm.weight", "k_norm.weight"})
        candidates.push_back(tensor.substr(0, tensor.size() - 13) + extra);
  }
  for (const std::string& tensor : candidates) {
    const auto found = file.tensors.find(tensor);
    if (found != file.tensors.end() && !is_zero(found->second)) ignored.push_back(tensor);
  }
  return ignored;
}

}  // namespace

AttentionWeights find_weights(NamedArrays tensors, const WeightsOptions& options, const std::string& name) {
  const Checkpoint file{name, std::move(tensors), options.prefix};
  const Naming& naming = choose_naming(file, options.format);
  const std::string q = file.expect(naming.q), o = file.expect(naming.o);
  const auto label = [&](const std::string& tensor) { return join(file.file, ": ", tensor); };
  if (naming.format == WeightsFormat::torch) {
    const Array& all = file.tensors.at(q);
    require(all.is_float() && all.rank() == 2 && all.dim(0) % 3 == 0, label(q), " is ", all.describe(),
            ", expected float32 or float64 (3 d, d)");
    const std::string part = label(q) + ", its rows of ";
    return {third_of_rows(all, 0),
            third_of_rows(all, 1),
            third_of_rows(all, 2),
            file.tensors.at(o),
            {part + "q", part + "k", part + "v", label(o)},
            find_ignored(file, {q, o})};
  }
  const std::string k = file.expect(naming.k), v = file.expect(naming.v);
  return {file.tensors.at(q),
          file.tensors.at(k),
          file.tensors.at(v),
          file.tensors.at(o),
          {label(q), label(k), label(v), label(o)},
          find_ignored(file, {q, k, v, o})};
}

AttentionWeights load_weights(const std::filesystem::path& path, const WeightsOptions& options,
                              const Execution& execution) {
  const std::string kind = path.extension().string();
  require(
      kind == ".npz" || kind == ".safetensors", path.string(), ": weights are read from .safetensors or .npz",
      kind == ".npy" ? message(", or from four .npy files with ", option("weights-q"), ", ",
                               option("weights-k"), ", ", option("weights-v"), " and ", option("weights-o"))
                     : Text());
  const std::uint64_t limit = MemoryBudget(execution).limit_bytes();
  return find_weights(kind == ".npz" ? read_npz(path, limit) : read_safetensors(path, limit).tensors, options,
                      path.string());
}

AttentionWeights load_weights(const std::filesystem::path& q, const std::filesystem::path& k,
                              const std::filesystem::path& v, const std::filesystem::path& o,
                              const Execution& execution) {
  const std::uint64_t limit = MemoryBudget(execution).limit_bytes();
  return {read_npy(q, limit),
          read_npy(k, limit),
          read_npy(v, limit),
          read_npy(o, limit),
          {q.string(), k.string(), v.string(), o.string()},
          {}};
}

}  // namespace headlens

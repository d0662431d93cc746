// Attention weights in a checkpoint: which tensors hold them, under every way of naming them.
#include <algorithm>
#include <string_view>
#include <utility>

#include "base/memory.hpp"
#include "headlens/arrays.hpp"
#include "headlens/error.hpp"
#include "headlens/weights.hpp"
#include "io/stored_matrix.hpp"

namespace headlens {
namespace {

using Names = std::vector<std::string>;

bool is_separator(char c) { return c == '.' || c == '/'; }

// "'a', 'b' and 7 others": what a reader needs to see which names the file has.
std::string list_tensors(const NamedArrays& tensors) {
  constexpr std::size_t shown = 6;
  std::string text;
  std::size_t count = 0;
  for (const auto& [tensor, array] : tensors) {
    if (count++ == shown) break;
    text += join(count == 1 ? "'" : ", '", tensor, "' ", format_shape(array.shape()));
  }
  return tensors.size() > shown ? join(text, " and ", tensors.size() - shown, " others") : text;
}

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
            " ends in '", suffixes.front(), "' among its ", tensors.size(),
            " tensors: ", list_tensors(tensors));
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
      {WeightsFormat::gpt2, {"c_attn.weight"}, {}, {}, {"attn.c_proj.weight", "c_proj.weight"}},
      {WeightsFormat::hugging_face,
       {"q_proj.weight", "q_proj"},
       {"k_proj.weight", "k_proj"},
       {"v_proj.weight", "v_proj"},
       {"o_proj.weight", "out_proj.weight", "o_proj", "out_proj"}},
      {WeightsFormat::hugging_face, {"q_lin.weight"}, {"k_lin.weight"}, {"v_lin.weight"}, {"out_lin.weight"}},
      // A BERT layer has other tensors that end in dense.weight.
      {WeightsFormat::hugging_face,
       {"query.weight", "query"},
       {"key.weight", "key"},
       {"value.weight", "value"},
       {"attention.output.dense.weight", "attention.dense.weight", "dense.weight", "dense"}}};
  return all;
}

// The tensors of TransformerLens have the names of `factors`; there they are those of a component `attn`.
bool is_wanted(const Naming& naming, WeightsFormat format) {
  if (format == WeightsFormat::transformer_lens) return naming.format == WeightsFormat::factors;
  return format == WeightsFormat::automatic || naming.format == format;
}

const Naming& choose_naming(const Checkpoint& file, WeightsFormat format) {
  const Naming* chosen = nullptr;
  for (const Naming& naming : namings()) {
    if (!is_wanted(naming, format)) continue;
    const bool present = std::ranges::any_of(
        naming.q, [&](const std::string& suffix) { return !file.ending_in(suffix).empty(); });
    if (!present) continue;
    require(!chosen, file.file, ": attention weights under two kinds of names: choose with ",
            option("format"), " or ", option("prefix"));
    chosen = &naming;
  }
  const std::string where = file.prefix.empty() ? "" : join(" under '", file.prefix, "'");
  require(chosen, file.file, ": no attention weights", where, " of format ", name(format), " among its ",
          file.tensors.size(), " tensors", file.tensors.empty() ? "" : ": ", list_tensors(file.tensors),
          " (expected W_Q .. W_O, in_proj_weight, q_proj .. o_proj, query .. dense, q_lin .. out_lin or "
          "c_attn; for other names give a file with W_Q, W_K, W_V and W_O, each (out, in))");
  return *chosen;
}

bool is_zero(const Array& array) {
  for (Index i = 0; i < array.size(); ++i)
    if (array.at(i) != 0) return false;
  return true;
}

// "a.q_proj.weight" -> "a.q_proj.bias", "in_proj_weight" -> "in_proj_bias", "W_Q" -> "b_Q".
std::string bias_of(const std::string& tensor) {
  const std::size_t last = tensor.find_last_of("./");
  const std::string stem = tensor.substr(0, last == std::string::npos ? 0 : last + 1);
  const std::string own = tensor.substr(stem.size());
  if (own.ends_with("weight")) return tensor.substr(0, tensor.size() - 6) + "bias";
  return own.starts_with("W_") ? stem + "b_" + own.substr(2) : "";
}

// What stands beside the weights and changes attention, but has no place in a layer.
Names find_ignored(const Checkpoint& file, const std::string& q) {
  Names candidates, ignored;
  if (q.ends_with("in_proj_weight"))
    for (const char* extra : {"bias_k", "bias_v"}) candidates.push_back(q.substr(0, q.size() - 14) + extra);
  if (q.ends_with("q_proj.weight"))
    for (const char* extra : {"q_norm.weight", "k_norm.weight"})
      candidates.push_back(q.substr(0, q.size() - 13) + extra);
  for (const std::string& tensor : candidates) {
    const auto found = file.tensors.find(tensor);
    if (found != file.tensors.end() && !is_zero(found->second)) ignored.push_back(tensor);
  }
  return ignored;
}

// The bias beside a matrix, all of it or one of three parts; nothing where the file has none.
void take_bias(const Checkpoint& file, const StoredMatrix& matrix, Index part, Index parts,
               AttentionWeights& out, Array& bias) {
  StoredMatrix stored;
  const auto found = file.tensors.find(bias_of(matrix.tensor));
  if (found != file.tensors.end() && matrix.rows > 0) {
    require(found->second.is_float() && found->second.size() == parts * matrix.rows, file.file, ": ",
            found->first, " is ", found->second.describe(), ", expected ", parts * matrix.rows, " numbers");
    stored = {found->first, 1, matrix.rows, part * matrix.rows, 0, 1};
    bias = io::take_matrix(found->second, stored);
  }
  if (found != file.tensors.end() && std::ranges::find(out.biases, found->first) == out.biases.end() &&
      !is_zero(found->second))
    out.biases.push_back(found->first);
  out.stored.push_back(stored);
}

// The tensors of q, k, v and o, and how each is stored.
struct Choice {
  Names tensors;
  bool fused = false;    // q, k and v are thirds of one tensor
  bool columns = false;  // (in, out)
  bool heads = false;    // (m, in, r)

  bool third(Index i) const { return fused && i < 3; }

  StoredMatrix stored(Index i, const Array& array, const std::string& label) const {
    const std::string& tensor = tensors[static_cast<std::size_t>(i)];
    if (heads) return io::from_heads(tensor, array, i == 3, label);
    if (columns || third(i))
      return io::cut(tensor, array, third(i) ? i : 0, third(i) ? 3 : 1, columns, label);
    return io::whole(tensor, array);
  }
};

Choice choose(const Checkpoint& file, WeightsFormat format) {
  const Naming& naming = choose_naming(file, format);
  const std::string q = file.expect(naming.q), o = file.expect(naming.o);
  const bool fused = naming.k.empty();
  return {
      {q, fused ? q : file.expect(naming.k), fused ? q : file.expect(naming.v), o},
      fused,
      naming.format == WeightsFormat::gpt2,
      format == WeightsFormat::transformer_lens ||
          (format == WeightsFormat::automatic && q.ends_with("attn.W_Q") && file.tensors.at(q).rank() == 3)};
}

// "layer.10" after "layer.9": runs of digits count as numbers.
bool natural_less(const std::string& a, const std::string& b) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (!digit(a[i]) || !digit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i, ++j;
      continue;
    }
    const std::size_t first = i, second = j;
    while (i < a.size() && digit(a[i])) ++i;
    while (j < b.size() && digit(b[j])) ++j;
    const std::string x = a.substr(first, i - first), y = b.substr(second, j - second);
    if (x.size() != y.size()) return x.size() < y.size();
    if (x != y) return x < y;
  }
  return a.size() - i < b.size() - j;
}

// The longest prefix of a tensor with queries, up to a separator, under which there are outputs, too.
std::string layer_of(const Checkpoint& file, const std::string& q, const Naming& naming) {
  for (std::size_t end = q.find_last_of("./"); end != std::string::npos;
       end = q.find_last_of("./", end - 1)) {
    const Checkpoint inner{file.file, file.tensors, q.substr(0, end)};
    for (const std::string& suffix : naming.o)
      if (!inner.ending_in(suffix).empty()) return inner.prefix;
    if (end == 0) break;
  }
  return "";
}

}  // namespace

AttentionWeights find_weights(NamedArrays tensors, const WeightsOptions& options, const std::string& name) {
  const Checkpoint file{name, std::move(tensors), options.prefix};
  const Choice choice = choose(file, options.format);
  AttentionWeights out;
  Array* const matrices[] = {&out.q, &out.k, &out.v, &out.o};
  Array* const biases[] = {&out.bq, &out.bk, &out.bv, &out.bo};
  for (Index i = 0; i < 4; ++i) {
    const std::string& tensor = choice.tensors[static_cast<std::size_t>(i)];
    const Array& array = file.tensors.at(tensor);
    std::string label = join(file.file, ": ", tensor);
    out.stored.push_back(choice.stored(i, array, label));
    const bool plain = !choice.heads && !choice.columns && !choice.third(i);
    *matrices[i] = plain ? array : io::take_matrix(array, out.stored.back());
    if (choice.third(i)) label += join(", its ", choice.columns ? "columns" : "rows", " of ", "qkv"[i]);
    out.names[static_cast<std::size_t>(i)] = label;
  }
  for (Index i = 0; i < 4; ++i)
    take_bias(file, StoredMatrix(out.stored[static_cast<std::size_t>(i)]), choice.third(i) ? i : 0,
              choice.third(i) ? 3 : 1, out, *biases[i]);
  out.heads = choice.heads ? file.tensors.at(choice.tensors[0]).dim(0) : 0;
  out.ignored = find_ignored(file, choice.tensors[0]);
  return out;
}

std::vector<std::string> find_layers(const NamedArrays& tensors, const WeightsOptions& options,
                                     const std::string& name) {
  const Checkpoint file{name, tensors, options.prefix};
  const Naming& naming = choose_naming(file, options.format);
  std::vector<std::string> layers;
  for (const std::string& suffix : naming.q)
    for (const std::string& q : file.ending_in(suffix)) {
      const std::string layer = layer_of(file, q, naming);
      if (std::ranges::find(layers, layer) == layers.end()) layers.push_back(layer);
    }
  std::ranges::sort(layers, natural_less);
  return layers;
}

NamedArrays load_tensors(const std::filesystem::path& path, const Execution& execution) {
  const std::string kind = path.extension().string();
  require(
      kind == ".npz" || kind == ".safetensors", path.string(), ": weights are read from .safetensors or .npz",
      kind == ".npy" ? message(", or from four .npy files with ", option("weights-q"), ", ",
                               option("weights-k"), ", ", option("weights-v"), " and ", option("weights-o"))
                     : Text());
  const std::uint64_t limit = MemoryBudget(execution).limit_bytes();
  return kind == ".npz" ? read_npz(path, limit) : read_safetensors(path, limit).tensors;
}

AttentionWeights load_weights(const std::filesystem::path& path, const WeightsOptions& options,
                              const Execution& execution) {
  return find_weights(load_tensors(path, execution), options, path.string());
}

AttentionWeights load_weights(const std::filesystem::path& q, const std::filesystem::path& k,
                              const std::filesystem::path& v, const std::filesystem::path& o,
                              const Execution& execution) {
  const std::uint64_t limit = MemoryBudget(execution).limit_bytes();
  AttentionWeights out;
  out.q = read_npy(q, limit), out.k = read_npy(k, limit);
  out.v = read_npy(v, limit), out.o = read_npy(o, limit);
  out.names = {q.string(), k.string(), v.string(), o.string()};
  return out;
}

}  // namespace headlens

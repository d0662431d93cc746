// Attention weights as checkpoints have them. For a token x, a column vector, q = W_Q x + b_Q,
// k = W_K x + b_K, v = W_V x + b_V, and W_O, b_O applied to the concatenated heads,
//
//   Theta_h = W_Q,h^T W_K,h / sqrt(d_head),   W_h = (W_O,h W_V,h)^T,
//   u_h = W_K,h^T b_Q,h / sqrt(d_head),       c = W_O b_V + b_O
//
// What a key bias adds is the same number in a whole row of logits, which softmax does not see.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "headlens/arrays.hpp"
#include "headlens/execution.hpp"
#include "headlens/layer.hpp"
#include "headlens/variant.hpp"

namespace headlens {

// Names of the tensors, after an optional prefix:
//   factors           W_Q, W_K, W_V, W_O, all (out, in) or (layer, out, in)
//   torch             in_proj_weight, out_proj.weight                     (nn.MultiheadAttention)
//   hugging_face      q_proj, k_proj, v_proj, o_proj | out_proj; or query, key, value, dense; or q_lin,
//   k_lin,
//                     v_lin, out_lin; with .weight                        (BERT, Llama, Mistral, Qwen, ...)
//   gpt2              c_attn.weight (in, 3 out), attn.c_proj.weight (in, out)
//   transformer_lens  attn.W_Q, attn.W_K, attn.W_V (m, in, d_head), attn.W_O (m, d_head, out)
// Biases have the same names with .bias, in_proj_bias or b_Q .. b_O.
enum class WeightsFormat { automatic, factors, torch, hugging_face, gpt2, transformer_lens };
std::string name(WeightsFormat format);  // auto, factors, torch, hf, gpt2, transformer-lens

struct WeightsOptions {
  Index heads =
      0;  // of the queries; shapes tell whether keys and values have fewer (grouped-query attention)
  WeightsFormat format = WeightsFormat::automatic;
  std::string prefix;          // of the tensor names
  std::optional<Index> layer;  // of tensors (layer, out, in); may be left out if there is one
  Index restrict_dim = 0;      // keep the first coordinates only; 0: all

  void validate() const;
};

// Where a matrix (out, in), or a bias as (1, out), is stored: entry (i, j) is item flat(i, j) of its tensor.
struct StoredMatrix {
  std::string tensor;  // empty: not in the file
  Index rows = 0, cols = 0;
  Index first = 0, row_step = 0, col_step = 0;
  Index run = 0, run_step = 0;  // 0, or rows come in runs of this many, which begin run_step apart

  bool present() const { return !tensor.empty(); }
  Index flat(Index i, Index j) const;
};

// All (out, in), or (layer, out, in). For messages, `names` has the name of each in the same order.
struct AttentionWeights {
  Array q, k, v, o;
  std::vector<std::string> names{"W_Q", "W_K", "W_V", "W_O"};
  std::vector<std::string> biases;  // tensors with biases that are not zero
  std::vector<std::string>
      ignored;           // tensors beside them that no layer of headlens has: norms, bias_k, bias_v
  Array bq, bk, bv, bo;  // (out); empty where the file has none
  Index heads = 0;       // where the shapes tell
  std::vector<StoredMatrix> stored;  // of q, k, v, o, bq, bk, bv, bo
};

// Found among named tensors; `name` (a file, usually) opens every error text.
AttentionWeights find_weights(NamedArrays tensors, const WeightsOptions& options, const std::string& name);
// The prefixes under which each layer of a checkpoint lies, in the order of the numbers in them.
std::vector<std::string> find_layers(const NamedArrays& tensors, const WeightsOptions& options,
                                     const std::string& name);
// The tensors of .safetensors or .npz.
NamedArrays load_tensors(const std::filesystem::path& path, const Execution& execution);
// From .safetensors or .npz.
AttentionWeights load_weights(const std::filesystem::path& path, const WeightsOptions& options,
                              const Execution& execution);
// From four .npy files.
AttentionWeights load_weights(const std::filesystem::path& q, const std::filesystem::path& k,
                              const std::filesystem::path& v, const std::filesystem::path& o,
                              const Execution& execution);

AttentionLayer layer_from_weights(const AttentionWeights& weights, const WeightsOptions& options,
                                  const Execution& execution);

}  // namespace headlens

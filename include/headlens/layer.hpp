// A multi-head softmax attention layer, and examples of it.
//
//   F(X) = sum_i softmax_rows(X Theta_i X^T) X W_i,   X: k tokens in R^d, Theta_i (d, d), W_i (d, e)
//
// and, where variant.hpp says so, with a mask, biases and rotary positions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "headlens/array.hpp"
#include "headlens/execution.hpp"
#include "headlens/variant.hpp"

namespace headlens {

struct AttentionLayer {
  Array theta;  // (m, d, d), float64; empty with rotary positions
  Array w;      // (m, d, e), float64
  LayerVariant variant = {};
  Array query_bias = {}, constant = {};  // u (m, d) and c (e), with biases
  Array q = {}, k = {};                  // (m, d, r), with rotary positions

  Index heads() const { return w.dim(0); }
  Index dim() const { return w.dim(1); }
  Index outputs() const { return w.dim(2); }
};

// The same in factors, Theta_i = Q_i K_i^T and W_i = V_i O_i: what is left to store where Theta is too large.
// Heads of smaller rank have columns of zeros.
struct FactoredLayer {
  Array q, k;           // (m, d, r), float64
  Array v, o;           // (m, d, s) and (m, s, e), float64
  Index kv_groups = 0;  // as in LayerVariant: heads of one group have equal K and equal V
};
AttentionLayer multiply_out(const FactoredLayer& factors);
// By singular values, those above 1e-13 of the head's largest.
FactoredLayer factors_of(const AttentionLayer& layer);

struct Examples {
  Array x;  // (n, k, d), float64
  Array y;  // (n, k, e), float64
  // Tokens of every example, 1 .. k: the first ones. Empty where all have k. The other tokens are padding:
  // they are seen by none, have no label, and are zero in x and y.
  std::vector<Index> lengths = {};
  // Where labels are missing, (n, k, e), float64: 1 for those that are there, 0 for the others, whose y is 0.
  Array seen = {};

  Index count() const { return x.dim(0); }
  Index tokens() const { return x.dim(1); }
  Index dim() const { return x.dim(2); }
  Index outputs() const { return y.dim(2); }
};

// Checked: shapes, at least one example, finite values. Other number types are converted to float64.
AttentionLayer make_layer(Array theta, Array w, const std::string& name = "layer");
// Of a layer with parts of its variant: shapes and finite values of biases, of Q and K, or of Theta.
AttentionLayer check_layer(AttentionLayer layer, const std::string& name = "layer");
Examples make_examples(Array x, Array y, const std::string& name = "examples");
Examples make_examples(Array x, Array y, const Array& lengths, const std::string& name = "examples");
// The same where labels may be missing: nan in y, or zero (false) in `observed`, (n, k) for whole tokens or
// (n, k, e). `lengths` and `observed` may be empty.
Examples make_partial_examples(Array x, Array y, const Array& lengths, const Array& observed,
                               const std::string& name = "examples");

// Error unless the layer is plain: `reader` ("inspect") says who asks.
void require_plain(const AttentionLayer& layer, const std::string& reader);

// .npz with `Theta` and `W`, or with `Q`, `K`, `V` and `O`; .npz with `X` and `Y`, `lengths` where there is
// padding, and `observed` where labels are missing that are not nan. Layers with variants also have
// `query_bias` (m, d), `constant` (e), `causal` (1), and `rotary` (3): base, layout (0 half, 1 interleaved)
// and share; those with `rotary` have `Q`, `K` (m, d, r) and `W` or `V`, `O`. Loading a layer that was
// written as uncertified is noted.
AttentionLayer load_layer(const std::filesystem::path& path, const Execution& execution);
// The factors of a plain layer that is stored as factors, as they are; nothing where a file holds Theta or a
// variant.
std::optional<FactoredLayer> load_factored_layer(const std::filesystem::path& path,
                                                 const Execution& execution);
enum class Certified {
  yes,
  no,
  not_said
};  // written as `certified`, 1 or 0; not at all where it was not said
void save_layer(const std::filesystem::path& path, const AttentionLayer& layer,
                Certified certified = Certified::not_said);
void save_layer(const std::filesystem::path& path, const FactoredLayer& factors,
                Certified certified = Certified::not_said);
Examples load_examples(const std::filesystem::path& path, const Execution& execution);
// X of an examples file, labels or none.
struct Tokens {
  Array x;  // (n, k, d)
  std::vector<Index> lengths = {};
};
Tokens make_tokens(Array x, const Array& lengths, const std::string& name = "tokens");
Tokens load_tokens(const std::filesystem::path& path, const Execution& execution);
void save_examples(const std::filesystem::path& path, const Examples& examples);

// F(X) for x (n, k, d). With lengths, rows of padding are zero.
Array apply_layer(const AttentionLayer& layer, const Array& x, const Execution& execution);
Array apply_layer(const AttentionLayer& layer, const Tokens& tokens, const Execution& execution);

enum class Inputs { signs, gaussian };
std::string name(Inputs inputs);

// A random layer: Theta_i Gaussian (or of rank r) with |Theta_i|_F = scale, the standard deviation of its
// logits on random signs; W_i Gaussian of variance 1/d.
struct TeacherOptions {
  Index heads = 2;
  Index dim = 8;
  Index outputs = 0;  // 0: dim
  double scale = 2;
  Index rank = 0;  // of Theta and W; 0: full. With rotary positions d / m, of Q and K alone
  Mask mask = Mask::none;
  bool bias = false;            // u_i Gaussian of deviation 0.7, c of deviation 1
  std::string rotary = "none";  // or as read_rotary() has it
  std::uint64_t seed = 0;

  LayerVariant variant() const;
  void validate() const;
};
AttentionLayer draw_teacher(const TeacherOptions& options);

struct ExampleOptions {
  Index count = 100;
  Index tokens = 4;
  Inputs inputs = Inputs::signs;
  double noise = 0;      // standard deviation of Gaussian noise on Y
  bool padding = false;  // lengths at random from 2 .. k
  std::uint64_t seed = 0;

  void validate() const;
};
Examples draw_examples(const AttentionLayer& layer, const ExampleOptions& options,
                       const Execution& execution);

// Heads with equal Theta become one (their W add up), heads with W = 0 are dropped, relative to the largest.
AttentionLayer canonical(const AttentionLayer& layer, double tolerance = 1e-12);

struct HeadMatch {
  Index a = 0, b = 0;      // head of each layer
  double theta_error = 0;  // |Theta_a - Theta_b|_F / |Theta_b|_F (absolute where Theta_b = 0)
  double w_error = 0;
};

struct Comparison {
  Index heads_a = 0, heads_b = 0;  // of the canonical forms
  std::vector<HeadMatch> matches;
  double worst_theta_error = 0, worst_w_error = 0;
  double constant_error = 0;  // |c_a - c_b| / |c_b|, with biases
  double worst_error = 0;     // infinite when the numbers of heads differ
};
// Matches heads one to one so that the sum of their errors is smallest; both layers in canonical form. Errors
// of Theta are those of what the labels tell: Theta together with the query bias, and with rotary positions
// Theta(D) = Q R_D K^T for all distances D together. Both layers are of the same variant.
Comparison compare_layers(const AttentionLayer& a, const AttentionLayer& b);
Comparison compare_layers(const FactoredLayer& a, const FactoredLayer& b);  // Theta is not formed

}  // namespace headlens

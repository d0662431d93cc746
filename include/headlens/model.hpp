// A fitted model: frozen random heads and trained values, or infinitely many heads and dual coefficients.
//
//   rfa, brfa   f(x_0, x_1..x_N) = b + sum_m (1/N) sum_i relu(xt_0^T W_m xt_i) <v_m, xt_i>
//   softmax     the weights (1/N) relu(.) become a softmax over the keys
//   exp, step   relu becomes exp, or the step: 1 above 0, else 0
//   mlp         f = b + sum_m relu(<w_m, [xt_0 .. xt_N]>) v_m, for sets of one fixed size
//
// with xt = [x; 1] in D = d + 1 dimensions. Infinitely many heads: f(x) = b + sum_i K(x, z_i) a_i, with the
// kernel K of kernel.hpp and training sets z_i.
//
// The entries of W_m are N(bias_scale * W_0, weight_scale^2) with W_0 = blockdiag(I_d, 0), or `mean` in place
// of W_0. With head_rank r, W_m = bias_scale * W_0 + weight_scale Q_m K_m^T / sqrt(r): separate query and key
// matrices (D, r) of standard normal entries. The entries of W_m have the same mean and variance as before.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "headlens/array.hpp"
#include "headlens/execution.hpp"

namespace headlens {

enum class ModelKind { rfa, brfa, mlp };
enum class Score { relu, softmax, exp, step };
enum class Positions { none, sinusoidal };
enum class Precision { f32, f64 };
enum class Loss { squared, huber, logistic, hinge };

std::string name(ModelKind kind);
std::string name(Score score);
std::string name(Positions positions);
std::string name(Precision precision);
std::string name(Loss loss);
template <class Enum>
Enum parse(const std::string& text);  // the inverse of name(); Error lists what is allowed

inline constexpr Index kInfiniteHeads = std::numeric_limits<Index>::max();
inline constexpr Index kMostFiniteHeads = 1'000'000'000'000;  // finitely many
inline constexpr Index kMostHeadRank = 1'000'000;

// What the features are: everything but the data and the trained values.
struct FeatureOptions {
  ModelKind kind = ModelKind::rfa;
  Index heads = 1000;                  // neurons, for mlp; or kInfiniteHeads
  std::optional<double> bias_scale;    // default: 0 for rfa, 1 for brfa
  std::optional<double> weight_scale;  // default: 1/2 for rfa and brfa, 1/sqrt(2 (N + 1)) for mlp
  Score score = Score::relu;
  Positions positions = Positions::none;
  Precision precision = Precision::f64;
  std::uint64_t seed = 0;
  std::optional<Array> mean;       // W_0: (d, d), which zeros extend, or (D, D); default: blockdiag(I_d, 0)
  std::optional<Index> head_rank;  // r; default: all entries of a head are independent

  bool infinite() const { return heads == kInfiniteHeads; }
  void validate() const;
};

// What a model with infinitely many heads keeps instead of them: training sets, as the kernel sees them.
struct Support {
  Array query;                        // (m, d)
  Array keys;                         // (m, N, d), or (total, d) with offsets; positions are added
  std::vector<std::int64_t> offsets;  // (m + 1), ragged sets only
};

struct Model {
  FeatureOptions features;  // scales filled in
  Loss loss = Loss::squared;
  Index dim = 0;                // d
  Index keys = 0;               // N, for mlp only (0: any)
  Index outputs = 0;            // q: targets, or classes (1 for two classes)
  bool vector_targets = false;  // y had an axis of outputs, so predictions have one
  bool sequence = false;
  Array heads;                                // (M, D, D); (M, (N + 1) D) for mlp; none if infinitely many
  Support support;                            // infinitely many heads only
  Array values;                               // (M, D, q); (M, q) for mlp; (m, q) a_i if infinitely many
  Array intercept;                            // (q)
  std::vector<std::int64_t> classes;          // empty for regression
  std::map<std::string, std::string> report;  // how it was trained

  bool is_classifier() const { return !classes.empty(); }
};

Model load_model(const std::filesystem::path& path, const Execution& execution);
void save_model(const std::filesystem::path& path, const Model& model);

}  // namespace headlens

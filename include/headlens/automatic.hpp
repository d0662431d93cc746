// A model of sets that needs no options: everything is chosen on the training sets, by exact leave-one-out.
//
// Tokens are standardised over the training keys (or become normal scores), clipped to +-3 deviations and
// divided by sqrt(d). A set is
// described by blocks: averages of its keys by random softmax heads, whose scores have a deviation T, or by
// their distance to the query; means and sums of random Fourier features of its keys; pools (mean, maximum,
// minimum, second moment, logarithm of the size); variances along random directions. A member is a kernel on
// some of the blocks, linear or exp(-gamma |Phi - Phi'|^2), with ridge and intercept; the model is a weighted
// sum of its members, whose leave-one-out predictions are best together:
//
//   f(x) = b + sum_c sum_j K_c(x, z_j) a_cj        z_j: sets that are kept, all of them or random ones
//
// docs/sets.md has the recipe, what it costs and where it fails.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "headlens/arrays.hpp"
#include "headlens/execution.hpp"
#include "headlens/fit.hpp"
#include "headlens/model.hpp"
#include "headlens/set_reader.hpp"
#include "headlens/sets.hpp"

namespace headlens {

// One group of numbers that describes a set. `parameter`: the deviation T of the scores for attention, the
// bandwidth for embedding and total (1 / its square, over the median squared distance of two keys), and beta
// for nearest: weights softmax_k(-beta |x_k - q|^2 / that distance). total: sums where embedding has means.
// centre and spread: the mean, and variances along the frequencies, of keys clipped to 30 deviations only.
enum class BlockKind {
  attention,
  embedding,
  mean,
  maximum,
  minimum,
  second,
  size,
  query,
  total,
  nearest,
  centre,
  spread
};
std::string name(BlockKind kind);
struct SetBlockInfo {
  BlockKind kind = BlockKind::attention;
  double parameter = 0;
  double scale = 1;  // the block is multiplied by it, so that no block drowns another
};

struct AutomaticMember {
  std::vector<SetBlockInfo> blocks;
  double gamma = 0;           // of |Phi - Phi'|^2; 0: the linear kernel
  double relative_gamma = 0;  // times the median of |Phi - Phi'|^2
  double penalty = 0;         // added to the diagonal of the kernel matrix
  double loo_error = 0;       // mean squared leave-one-out error of this member alone, on all sets
  double weight = 0;          // what the member counts in the sum; its values hold the weight already
};

// What is learned of the tokens before any kernel.
struct TokenFrame {
  Array mean, width;         // (d); width 0: the coordinate is constant and dropped
  bool given_query = false;  // else the query of a set is zero
  double score_unit = 1;     // one over the root mean square of q^T W_m x over the training keys
  double key_distance = 1;   // median squared distance of two keys
  Array head_queries;        // (d' + 1, M, r) of the d' coordinates that are left: W_m = Q_m K_m^T / sqrt(r)
  Array head_keys;           // (M, r, d')
  Array frequencies;         // (R, d')
  // (d', K), or empty: coordinates are lines from knots to normal scores, not (x - mean) / width, for all
  // blocks but centre and spread.
  Array knots, scores;

  bool by_scores() const { return knots.size() > 0; }
};

struct AutomaticModel {
  Index dim = 0, outputs = 0;
  bool vector_targets = false, sequence = false;
  std::vector<std::int64_t> classes;  // empty for regression
  std::uint64_t seed = 0;
  TokenFrame frame;
  Support support;
  std::vector<AutomaticMember> members;
  Array values;     // (members, m, q)
  Array intercept;  // (q)
  // Uncertainty, from leave-one-out predictions of the whole model.
  double slope = 0;  // classifiers: P = 1 / (1 + exp(-slope f)), or a softmax of slope f
  Array residuals;   // regression: (n, q) |y_i - f_-i(x_i)| / deviation of that, every column sorted
  Array noise;       // regression: (q) the deviation s of y about f
  Array spread;      // regression: (m, r) S: of the first member K, s^2 (1 + 1/n + (K - |S^T k|^2) / penalty)
  Array kernel_means;    // regression: (m) mean of the first member's kernel with every kept set
  Index count = 0;       // n
  double loo_error = 0;  // mean squared leave-one-out error of the whole model
  std::optional<double> loo_accuracy;
  std::map<std::string, std::string> notes;  // kept in the file: what a front end wants back

  bool is_classifier() const { return !classes.empty(); }
};

struct AutomaticFit {
  AutomaticModel model;
  std::vector<AutomaticMember>
      trials;  // every kernel that was tried, best first; their errors on `screened` sets
  Index screened = 0;
  // Of the best kernel with values where scores were chosen, or the reverse; none if scores are all alike.
  std::optional<double> other_tokens_error;
  std::uint64_t predicted_peak_bytes = 0;
  double seconds = 0;
};

// Integers in y are class labels, other numbers are regressed on. The same bytes for any number of threads.
[[nodiscard]] AutomaticFit fit_automatic(const LabelledSets& data, std::uint64_t seed,
                                         const Execution& execution);

// As the functions of the same names in fit.hpp.
[[nodiscard]] Array predict_scores(const AutomaticModel& model, const Sets& sets, const Execution& execution);
[[nodiscard]] Array predict(const AutomaticModel& model, const Sets& sets, const Execution& execution);
// (n, members m): scores are features * values + intercept.
[[nodiscard]] Array compute_features(const AutomaticModel& model, const Sets& sets,
                                     const Execution& execution);
// (n, q): the standard deviation of y about the prediction. Regression only.
[[nodiscard]] Array predict_deviation(const AutomaticModel& model, const Sets& sets,
                                      const Execution& execution);
// The factor by which deviations are multiplied for intervals that hold a share `coverage` of fresh targets,
// one per output: a quantile of leave-one-out residuals. Error if there are too few sets for the coverage.
[[nodiscard]] std::vector<double> interval_factors(const AutomaticModel& model, double coverage);
[[nodiscard]] Evaluation evaluate(const AutomaticModel& model, const LabelledSets& data,
                                  const Execution& execution);

AutomaticModel load_automatic_model(const std::filesystem::path& path, const Execution& execution);
void save_model(const std::filesystem::path& path, const AutomaticModel& model);
// The contents of the file, and the model from them, checked; `name` begins every error.
TensorFile tensors_of(const AutomaticModel& model);
AutomaticModel automatic_model_from(TensorFile file, const std::string& name);
// Whether the file is one of these models; false for files that are no models at all.
bool is_automatic_model(const std::filesystem::path& path);

// "attention at 3 + pools, gamma 0.3": a member in words.
std::string describe(const AutomaticMember& member);

}  // namespace headlens

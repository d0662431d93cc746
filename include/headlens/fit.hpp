// Training, prediction and evaluation of random-feature attention.
//
// Squared loss: minimise (1/n) |Phi V + 1 b^T - Y|^2 + ridge |V|^2, by Cholesky on the smaller of the primal
// (p = M D unknowns) and the dual (n unknowns); matrix-free conjugate gradients when the Gram matrix exceeds
// the memory budget. Other losses: minimise (1/n) sum_i loss(f_i, y_i) + ridge |V|^2, and optionally over the
// ball sum_m |v_m| <= K1, sum_m |v_m|^2 <= K2.
//
// Infinitely many heads: kernel ridge regression, V = sum_i a_i phi(z_i) over all training sets (squared
// loss, as long as the kernel matrix fits in memory) or over random ones, the centres. The penalty `ridge`
// corresponds to M * ridge with M heads, because the kernel is the mean over heads, not the sum.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "headlens/execution.hpp"
#include "headlens/model.hpp"
#include "headlens/set_reader.hpp"
#include "headlens/sets.hpp"

namespace headlens {

struct NormBall {
  double k1 = 0;  // sum_m |v_m| <= k1
  double k2 = 0;  // sum_m |v_m|^2 <= k2
};

enum class Solver { automatic, primal, dual, iterative };

struct FitOptions {
  FeatureOptions features;
  Loss loss = Loss::squared;
  std::optional<double> ridge;  // empty: chosen by leave-one-out (squared) or cross-validation (other losses)
  std::optional<NormBall> norm_ball;
  double huber_delta = 1.0;  // where the Huber loss turns linear
  bool intercept = true;
  Solver solver = Solver::automatic;
  std::optional<Index> centres;  // infinitely many heads: fit on this many sets (Nystrom), chosen at random
  Index block_sets = 0;          // sets whose features are held at once; 0: chosen. Never changes the result.

  void validate() const;
};

// digits_lost: solved, but the features hold too little of what differs between sets (score_digits).
enum class FitStatus { solved, stalled, not_positive_definite, digits_lost };
std::string name(FitStatus status);
std::string name(Solver solver);

struct RidgeTrial {
  double ridge = 0;
  double error = 0;  // leave-one-out mean squared error, or mean validation loss
};

struct FitReport {
  FitStatus status = FitStatus::solved;
  Solver solver = Solver::automatic;  // the one used
  std::string backend;                // the machine used: "cpu", "cuda"
  std::string method;                 // in words: "dual Cholesky", ...
  double ridge = 0;
  std::string ridge_rule;  // "given", "leave-one-out", "minimum norm", "held-out tenth", "5-fold", ...
  std::vector<RidgeTrial> trials;
  double train_loss = 0;    // mean over the training sets; for squared, the mean squared error
  double residual = 0;      // relative residual of the normal equations, or relative optimality gap
  double score_digits = 0;  // decimal digits that the scores keep of what differs between tokens
  int iterations = 0;
  std::uint64_t predicted_peak_bytes = 0;
  double seconds = 0;
};

struct Fit {
  Model model;
  FitReport report;
};

[[nodiscard]] Fit fit(const LabelledSets& data, const FitOptions& options, const Execution& execution);

// Prediction and evaluation of sets in memory, or of a file that is read a block at a time, whose size then
// does not matter; a reader is read to its end. What is predicted of a set does not depend on the others.

// (n, q) scores: predictions, or one score per class.
[[nodiscard]] Array predict_scores(const Model& model, const Sets& sets, const Execution& execution);
[[nodiscard]] Array predict_scores(const Model& model, SetReader& reader, const Execution& execution);
// As y was: (n), (n, q) or (n, L[, q]); class labels for classifiers.
[[nodiscard]] Array predict(const Model& model, const Sets& sets, const Execution& execution);
[[nodiscard]] Array predict(const Model& model, SetReader& reader, const Execution& execution);

// What the trained values read: (n, M D) in the order of the model's values, (n, M) for mlp; for infinitely
// many heads the kernel with the sets that the model keeps, (n, m). In the precision of the model.
[[nodiscard]] Array compute_features(const Model& model, const Sets& sets, const Execution& execution);

struct Evaluation {
  Index count = 0;
  double mse = 0;
  std::optional<double> nmse;      // mse / variance of y; empty when y is constant
  std::optional<double> accuracy;  // classifiers only
};
[[nodiscard]] Evaluation evaluate(const Model& model, const LabelledSets& data, const Execution& execution);
[[nodiscard]] Evaluation evaluate(const Model& model, SetReader& reader, const Execution& execution);

}  // namespace headlens

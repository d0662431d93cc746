// From whitened examples to the heads of a layer with a mask, biases or rotary positions: Levenberg-Marquardt
// from random starts on all parameters of the logits, with W' eliminated.
#pragma once

#include "attention/variant_map.hpp"
#include "recover/candidate.hpp"

namespace headlens::recovery {

struct VariantData {
  Split split;
  LayerVariant variant = {};
  Index rank = 0;  // of Q and K

  VariantShape shape(Index heads) const { return {variant, split.train_x.cols, heads, rank}; }
};

// dim: of the tokens, which may span less.
VariantData variant_data(const Split& white, const RecoverOptions& options, Index dim);
// Columns of Q and K: as given, or d / m; 0 without rotary positions.
Index rotary_rank(const RecoverOptions& options, Index dim);
// Error where nothing tells that number, on which the angles depend, or where none of the columns turns.
void require_turned_columns(const RecoverOptions& options, Index dim);

struct VariantCandidate {
  VariantShape shape;
  Matrix<double> parameters, w;
  double train_error = 1, held_out_error = 1;
  bool at_minimum = false;  // the solver ended at a minimum that is not zero: noise, or the wrong variant
};
VariantCandidate copy_of(const VariantCandidate& candidate);

double variant_unknowns(const VariantShape& shape, Index outputs);
double equations_per_unknown(const VariantData& data, Index heads);
// The first examples, so many equations per unknown.
VariantData first_examples(const VariantData& data, Index heads, double equations);
inline constexpr double kVariantEquations = 8;

std::unique_ptr<backend::LayerProblem> pose(const VariantData& data, const VariantShape& shape,
                                            const Effort& effort);
// Y - F(X) of the training examples.
Matrix<double> residual_of(const VariantData& data, const VariantCandidate& candidate, int threads);

VariantCandidate solve_from(const VariantData& data, const VariantShape& shape, Matrix<double> parameters,
                            const LmOptions& options, const std::string& phase, Effort& effort);

// So many heads from starts of their own, until one explains the held-out examples; with all digits then.
VariantCandidate search_variant(const VariantData& data, Index heads, int starts, std::uint64_t seed,
                                Effort& effort);
// The fewest heads that explain the held-out examples, from 1 on.
VariantCandidate count_variant_heads(const VariantData& data, const RecoverOptions& options, Effort& effort,
                                     Certificate& certificate);

}  // namespace headlens::recovery

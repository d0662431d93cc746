// A candidate in factors (backend/factors.hpp): Theta_i = Q_i K_i^T, W_i = V_i O_i.
//
// Q_i A, K_i A^-T and V_i B, B^-1 O_i give the same head for every invertible A and B. The balanced form
// picks one: Q_i = U sqrt(s) and K_i = U' sqrt(s) from Theta_i = U s U'^T, V_i orthonormal and the rows of
// O_i orthogonal. Errors and distances are those of Theta and W, which do not depend on the choice; they are
// computed from products of r columns, so no matrix of d^2 entries is formed. Of a pair of columns that turn
// with their positions, the balanced form has |q| = |k|.
#pragma once

#include "backend/backend.hpp"
#include "headlens/layer.hpp"
#include "recover/candidate.hpp"

namespace headlens::recovery {

struct Factors {
  backend::HeadRanks ranks;
  backend::FactorValues values;
  double train_error = 1, held_out_error = 1;

  Index dim() const { return values.parameters.rows(); }
  Index outputs() const { return values.o.cols(); }
  Index heads() const { return ranks.heads(); }
};
Factors copy_of(const Factors& factors);

// One head as views.
struct HeadFactors {
  MatrixView<const double> q, k, v, o;
  std::optional<Rotary> rotary = {};

  Index pairs() const { return rotary ? rotary->pairs(q.cols) : 0; }  // of columns that turn
};
HeadFactors head_of(const Factors& factors, Index head);

// One head by itself, to be put together with others.
struct OwnHead {
  Matrix<double> q, k, v, o;
  std::optional<Rotary> rotary = {};

  HeadFactors view() const { return {q.view(), k.view(), v.view(), o.view(), rotary}; }
};
OwnHead own_head(const Factors& factors, Index head);
// `like` says what the layer has besides its heads.
Factors assemble(const std::vector<OwnHead>& heads, const backend::HeadRanks& like = {});

// The start of this number. Entries of Q and K have deviation 0.7 / (d^2 r)^(1/4): logits of size 0.5.
Factors random_factors(Index dim, Index outputs, Index heads, Index rank, std::uint64_t seed, int start);

// The heads of a layer and those of another, whose O is 0: the same function as before.
Factors with_silent_heads(const Factors& layer, const Factors& silent);

// The balanced form, without the singular values below these shares of the head's largest. Columns that turn
// stay.
OwnHead balanced(const OwnHead& head, double theta_share = 0, double w_share = 0);
Factors balanced(const Factors& factors, double theta_share = 0, double w_share = 0, int threads = 1);

// The largest singular values of a balanced head, or of all heads.
OwnHead cut_to(const OwnHead& head, Index logits, Index values);
Factors cut_to(const Factors& factors, Index rank);

// <A B^T, C D^T> from the columns alone.
double factored_product(MatrixView<const double> a, MatrixView<const double> b, MatrixView<const double> c,
                        MatrixView<const double> d);
double w_norm(const HeadFactors& head);

// Entries of Q, K, V and O: m r (3 d + e) for ranks of r where nothing is shared.
double factor_unknowns(const backend::HeadRanks& ranks, Index dim, Index outputs);

// |F(X) - Y| / |Y|
double error_on(const backend::LayerExamples& examples, const Factors& factors,
                const backend::Context& context);

// Q, K, V and O head by head, with columns of zeros where a head has fewer than others.
FactoredLayer factored_layer(const Factors& factors);
Factors factors_from(const FactoredLayer& layer);

}  // namespace headlens::recovery

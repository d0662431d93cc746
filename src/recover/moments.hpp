// Heads from moments alone, the algebraic way that the paper's geometry is the alternative to.
//
// The span: the second moment T of spectral.hpp has singular vectors U_j (for Theta) and V_j (for W), which
// span the heads but do not tell them apart: any mixture of heads gives the same T. A third moment does. For
// distinct tokens a, b, c, c' the second derivative of a softmax gives
//
//   G_jlr = mean over a of sum_{b, c, c'} (x_a^T U_j x_c) (x_a^T U_l x_c') (x_b^T V_r y_a)
//         ~ (2/k^3) (k-1)(k-2)(k-3) sum_i <U_j, Theta_i> <U_l, Theta_i> <V_r, W_i>,
//
// so that every slice G_r = C D_r C^T has the heads' coordinates C in the span as common factors, and C holds
// the eigenvectors of G(v) G(w)^-1 for mixtures v, w of slices (Jennrich's algorithm). What the moments do
// not tell well is the size of each Theta_i: that is searched along its direction, with W by least squares.
//
// Both formulas are approximate. They are those of small logits and of independent tokens with mean zero and
// covariance identity (signs, Gaussians), and T also holds every head with the roles of x_b and x_c
// exchanged, which no sum over tokens tells from the head itself; its share falls with d. More examples do
// not remove that bias. n k m (2 d (d + e) + k m^2) operations for G; four tokens or more.
#pragma once

#include "recover/spectral.hpp"

namespace headlens::recovery {

// G for the first `heads` directions: slice r is rows r m .. r m + m - 1 of (m m, m).
Matrix<double> third_moment(const Split& split, const HeadSpan& span, Index heads, Effort& effort);

// Unit columns C (m, m) with G_r ~ C D_r C^T.
Matrix<double> common_factors(const Matrix<double>& third, std::uint64_t seed);

// The whole method; the number of heads is the one given, or the one before the widest gap of T.
Candidate find_by_moments(const Split& split, const HeadSpan& span, const RecoverOptions& options,
                          Effort& effort);

}  // namespace headlens::recovery

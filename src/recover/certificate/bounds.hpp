// How far the heads of a recovered layer can be off. The labels are those of a true layer up to an error nu,
// the rounding of labels and of our own sums. To first order
//
//   dTheta = L^-T (along + Q^T nu),    dW_c = L_1^-T (Q_1^T nu_c - coupling_c dTheta)
//
// and the largest that each head's part can be, over every nu of that size, is the norm of its rows in the
// inverse factor: the worst direction, not the average one, because what a solver leaves behind lies in it.
#pragma once

#include "recover/linearisation.hpp"

namespace headlens::recovery {

struct HeadBound {
  double theta = 0, w = 0;  // |error|_F stays below these; infinite where nothing can be said
};

struct Bounds {
  std::vector<HeadBound> heads;  // in the coordinates of the weights
  std::vector<HeadBound> plain;  // in those of the examples
  double label_error = 0;        // nu
  // The direction of Theta in which the heads, each in units of its own size, are seen least. Unit length in
  // those units.
  Matrix<double> weakest;  // (d, m d)
  // Smallest singular value of P_perp J and each head's share of its direction.
  double smallest_singular_value = 0;
  std::vector<double> shares;
};

// weights (d): errors are measured in coordinates weights * those of the examples.
Bounds bound_errors(const Linearisation& at, const std::vector<double>& weights);

// Whether the residual is below the rounding that error bars allow for anyway: no further step narrows them.
bool at_rounding(const Linearisation& at);

// Is the residual no more than what rounding leaves? Of a candidate: also on the held-out examples, where
// what the fit may be off by counts, too.
bool explained(const Linearisation& at);
bool explained(const Split& split, const Candidate& candidate, int threads);

}  // namespace headlens::recovery

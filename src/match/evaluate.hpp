// A layer in factors on examples: attention and outputs, one example at a time.
#pragma once

#include <vector>

#include "headlens/match.hpp"
#include "linalg/matrix.hpp"

namespace headlens::matching {

// Token a of an example sees tokens 0 .. a with a causal mask, and those before `length` with padding.
struct View {
  MatrixView<const double> x;  // (k, d)
  Index length = 0;            // of the tokens that are there, at most k
  bool causal = false;
};

// P (k, k) of head h.
Matrix<double> attention_of(const LayerHeads& layer, Index h, const View& view);
// X V_h (k, s), or X W_h (k, e) where W is multiplied out.
Matrix<double> values_of(const LayerHeads& layer, Index h, MatrixView<const double> x);
// y += a O_h for a (k, s), or y += a where W is multiplied out.
void add_output(const LayerHeads& layer, Index h, MatrixView<const double> a, MatrixView<double> y);
// F(X) (k, e).
Matrix<double> outputs_of(const LayerHeads& layer, const View& view);

}  // namespace headlens::matching

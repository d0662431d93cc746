// The ways to fit. A plan names one, the back end says what it takes in memory, and the fit follows it:
// memory and algorithm cannot disagree.
#pragma once

#include "backend/gram.hpp"
#include "headlens/model.hpp"
#include "headlens/sets.hpp"

namespace headlens::backend {

enum class Method {
  cholesky,             // squared loss, one penalty
  path,                 // squared loss, all penalties from one factorisation
  minimum_norm,         // squared loss, no penalty
  conjugate_gradients,  // squared loss, without a Gram matrix
  newton,               // other losses, products with the Gram matrix of the dual side
  newton_on_features,   // other losses, products with the features
  norm_ball,
};

struct Route {
  Method method = Method::cholesky;
  Side side = Side::dual;
  // Of the factorisation. f32: coefficients are refined in double, and where float does not carry that far,
  // the same route in f64 takes its place.
  Precision precision = Precision::f64;
};

// What a route is followed on.
struct Shape {
  const Sets& sets;
  const FeatureOptions& features;  // with the scales filled in
  Index outputs = 1;
  Index centres = 0;     // infinitely many heads: Nystrom on so many sets; 0: the kernel matrix itself
  Index sketch = 0;      // conjugate gradients: rank of the preconditioner; 0: the one the design knows
  Index penalties = 0;   // that a path tries
  Index left_out = 0;    // examples left out by a path in f32
  bool hold = false;     // all of Phi
  Index block_sets = 0;  // as in FeatureSource
};

}  // namespace headlens::backend

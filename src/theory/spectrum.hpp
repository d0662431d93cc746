// The eigenvalues of the kernel of a model with infinitely many heads, as an operator on functions of sets of
// N + 1 uniform unit tokens:  E[K(x, x') f(x')] = lambda f(x).  Eigenfunctions are products of harmonics of
// single tokens.
#pragma once

#include <memory>
#include <vector>

#include "headlens/model.hpp"

namespace headlens {

struct Level {
  double eigenvalue = 0;
  double multiplicity = 0;
};

// All levels up to some degree, without the constant function; what lies beyond is known by its sum.
struct Levels {
  std::vector<Level> kept;
  double trace = 0;  // sum of eigenvalue * multiplicity, kept or not, without the constant function
  double rest = 0;   // the part of the trace that is not kept
  double largest_left_out = 0;  // eigenvalue
};

class KernelSpectrum {
 public:
  virtual ~KernelSpectrum() = default;

  // log of the eigenvalue of the functions (1/N) sum_i Y_a(x_0) Y_b(x_i), Y_a and Y_b harmonics of degrees a,
  // b.
  virtual double log_eigenvalue(Index query_degree, Index key_degree) const = 0;

  // Error if there are more than a few hundred thousand.
  virtual Levels levels(Index degree) const = 0;
};

std::unique_ptr<KernelSpectrum> make_spectrum(ModelKind model, Index dim, Index keys);

}  // namespace headlens

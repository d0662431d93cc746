// Phases 2 and 4: the convex body around the affine hull of the Theta_i. Vectors are vec(Theta), d^2 long.
//
// Least squares:   { Theta : sum_j w_j (<Theta, z_j> - t_j)^2 <= smallest value + tolerance^2 sum_j w_j }
// Linear program:  { Theta : sqrt(w_j) |<Theta, z_j> - t_j| <= half-width, and the half-spaces }
//
// Every difference Theta_i - Theta_j is a long direction: the slabs hold all heads at once.
#pragma once

#include <memory>
#include <vector>

#include "recover/sculpt/slabs.hpp"

namespace headlens::recovery::sculpting {

struct LongDirections {
  Matrix<double> vectors;      // (count, d^2), orthonormal rows, longest first
  std::vector<double> widths;  // count + 1 of them, one more than vectors, where the body has as many
};

class Body {
 public:
  virtual ~Body() = default;
  virtual Index unknowns() const = 0;
  virtual bool contains(const std::vector<double>& theta) const = 0;  // up to a part in a million
  virtual std::vector<double> inner_point() const = 0;                // the middle of the cuts
  // The point nearest to 0: in the hull of the Theta_i, about, since the body is thin elsewhere.
  virtual std::vector<double> minimum_norm_point() = 0;
  virtual LongDirections long_directions(Index count) = 0;
  virtual double width() = 0;  // of the longest direction, about
  virtual Index outliers() const { return 0; }
};

// d^2 (N + d^2) memory at most; O(N d^4 + d^6) flops for N slabs.
std::unique_ptr<Body> carve_ellipsoid(const Cuts& cuts, const Effort& effort);
// Takes the 8 d^2 best slabs at most (4 d^2 where that is more than 1024), and a quarter as many half-spaces.
// The seed draws the planes whose touching points show the long directions. `effort` outlives the body.
std::unique_ptr<Body> carve_polytope(const Cuts& cuts, std::uint64_t seed, const Effort& effort);

}  // namespace headlens::recovery::sculpting

// The recurrence of conjugate gradients, written once for every system that the library solves with it:
//
//   beta  = <r, z> / <r, z before>      p = z + beta p,
//   alpha = <r, z> / <p, A p>           x = x + alpha p,   r = r - alpha A p,   z = P^-1 r
//
// A system brings its vectors, its inner product and its precision. Columns do not interact and have
// coefficients of their own. Hestenes, Stiefel 1952.
#pragma once

#include <vector>

namespace headlens {

class CgSystem {
 public:
  using Columns = std::vector<double>;  // one number per column
  virtual ~CgSystem() = default;

  virtual Columns sizes() = 0;                     // <r, z>
  virtual bool goes_on(const Columns& sizes) = 0;  // another iteration from here?
  virtual void turn(const Columns& beta) = 0;      // p = z + beta p
  virtual Columns curvatures() = 0;                // A p, and <p, A p>
  // x and r move by alpha, which is 0 where a curvature is not positive; false if that was the last move.
  virtual bool move(const Columns& alpha) = 0;
};

// At most so many iterations, from p = 0.
void iterate(CgSystem& system, int most);

}  // namespace headlens

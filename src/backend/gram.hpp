// The Gram matrix of a Design, and what is solved with it:
//
//   dual     K = Phi Phi^T   (n, n)     right side Y          unknowns alpha, V = Phi^T alpha
//   primal   G = Phi^T Phi   (p, p)     right side Phi^T Y    unknowns V
//
// The precision of a Gram matrix is a value. In f64 it is exact but for the rounding of the features, and its
// solutions are the fit. In f32 it has a few digits: enough to choose a penalty and to precondition conjugate
// gradients on exact products, which win some digits per step:
//
//   |P^-1 (K + shift) - I| <= c eps_f32 |K| / shift + |N| / sqrt(shift),  N what rounding adds to Phi
//
// The matrix is the largest object of a fit, so factor(), minimum_norm() and shift_path() use it up: a Gram
// answers one of them, once, and nothing afterwards.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "linalg/matrix.hpp"

namespace headlens::backend {

enum class Side { dual, primal };

// (G + shift)^-1.
class Factor {
 public:
  virtual ~Factor() = default;
  // out = (G + shift)^-1 in, both (size, q): refined until the residual no longer halves (f64), or to a few
  // digits (f32).
  virtual void solve(MatrixView<const double> in, MatrixView<double> out) = 0;
};

// All penalties from one factorisation, and the leave-one-out error of each. With A = K + shift or G + shift,
// shift = n ridge, and an intercept:
//
//   dual     y_i - f_{-i}(x_i) = alpha_i / d_i       d_i = [A^-1]_ii - 1 / (n (c + shift)),  alpha = A^-1 y
//   primal   y_i - f_{-i}(x_i) = (y_i - f_i) / d_i   d_i = 1 - 1/n - phi_i^T A^-1 phi_i
//
// The total penalty n ridge stays fixed when an example is left out. In the dual, centring leaves K with the
// null vector 1; adding c 1 1^T / n, c the mean diagonal, gives this vector an ordinary eigenvalue instead,
// which changes nothing for centred y and avoids a cancellation of order 1/shift. Without an intercept the
// 1/n terms are absent.
class ShiftPath {
 public:
  virtual ~ShiftPath() = default;
  // The mean squared leave-one-out error at every shift, the largest shift first; infinity where A is not
  // positive definite. In f32 the list ends before the first shift that the precision cannot tell from 0.
  virtual std::vector<double> leave_one_out(const std::vector<double>& shifts) = 0;
  // Whether all shifts cost little more than one. If not, each is a factorisation, and few should be asked
  // for.
  virtual bool one_factor() const { return true; }
  // Keeps a reference to the path. Null if A is not positive definite.
  virtual std::unique_ptr<Factor> factor(double shift) = 0;
};

class Gram {
 public:
  virtual ~Gram() = default;
  virtual Index size() const = 0;
  virtual double trace() const = 0;
  virtual MatrixView<const double> right_side() const = 0;  // (size, q); none without targets. f64 only
  // out = K in, both (size, q). f64 only.
  virtual void multiply(MatrixView<const double> in, MatrixView<double> out) const = 0;
  virtual std::unique_ptr<Gram> copy() const = 0;  // f64 only

  // Null if G + shift is not positive definite in this precision.
  virtual std::unique_ptr<Factor> factor(double shift) = 0;
  // sum over eigenvalues above rounding of u u^T rhs / sigma: the solution of least norm, as ridge -> 0.
  // Eigenvalues below size * epsilon * largest, epsilon that of the features, are rounding: rows that repeat,
  // or directions that no feature has. Nothing if the eigenvalues cannot be had. f64 only.
  virtual std::optional<Matrix<double>> minimum_norm() = 0;
  virtual std::string_view path_method() const { return "band reduction"; }  // how a path is had, in words
  // Null if the squares of the features leave the range of the precision.
  virtual std::unique_ptr<ShiftPath> shift_path() = 0;
};

}  // namespace headlens::backend

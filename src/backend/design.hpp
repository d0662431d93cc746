// Phi, centred: the features of all training sets as a matrix (n, p), which lives inside a back end, whole or
// computed again whenever a product needs it.
//
// The order of the columns and their padding are the design's own. Vectors of p entries that cross this seam
// are in that order: algorithms add, scale and multiply them, and never ask what a column is. Two questions
// translate: head_of_column() for norms of single heads, and stored() for the model.
#pragma once

#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include "backend/gram.hpp"
#include "headlens/model.hpp"
#include "headlens/sets.hpp"
#include "linalg/matrix.hpp"

namespace headlens::backend {

struct GramRequest {
  Side side = Side::dual;
  Precision precision = Precision::f64;
  MatrixView<const double> targets = {};  // (n, q), which outlive the Gram; none: no right side
  // f32: the examples, in increasing order, whose leave-one-out denominators d_i are computed. The d_i of all
  // n examples cost twice as much as the Gram matrix in the primal, while residuals r_i are cheap, so that
  //
  //   sum_i (r_i / d_i)^2  ~  sum_i r_i^2  *  sum_S (r_i / d_i)^2 / sum_S r_i^2
  //
  // with S the examples left out. Exact if S is everything or the d_i are equal. They nearly are, and equally
  // so at neighbouring penalties: what is compared errs less than either.
  std::vector<Index> left_out = {};
  bool intercept = true;  // whether features and targets are centred because of an intercept
};

// What the normal equations leave at values V.
struct Residuals {
  double squares = 0;       // |Phi V - Y|^2
  Matrix<double> gradient;  // Phi^T (Phi V - Y), (p, q)
  Matrix<double> product;   // Phi^T Y, (p, q)
};

class Design {
 public:
  virtual ~Design() = default;
  virtual Index rows() const = 0;                  // n
  virtual Index columns() const = 0;               // p, padding included
  virtual Precision precision() const = 0;         // of the features
  virtual const std::vector<double>& means() = 0;  // (p), zeros without centring
  virtual void hold() = 0;  // keep all of Phi from now on: the caller has seen that it fits

  // `phase` names the pass over the features for progress.
  virtual Matrix<double> forward(MatrixView<const double> v, std::string_view phase) = 0;  // Phi V, (n, q)
  virtual Matrix<double> adjoint(MatrixView<const double> r, std::string_view phase) = 0;  // Phi^T R, (p, q)
  // For conjugate gradients: Phi Phi^T R, and Phi^T diag(w) Phi V (no weights: all one), in one pass where a
  // machine can.
  virtual Matrix<double> outer_product(MatrixView<const double> r, std::string_view phase) {
    return forward(adjoint(r, phase), phase);
  }
  virtual Matrix<double> inner_product(MatrixView<const double> v, std::string_view phase,
                                       const std::vector<double>& weights) = 0;
  // trace(Phi Phi^T) / n. Error if it overflows: features may be finite and their squares not.
  virtual double mean_square_row() = 0;
  virtual Residuals check(MatrixView<const double> values, MatrixView<const double> targets) = 0;

  // Error if the squares of the features overflow (f64).
  virtual std::unique_ptr<Gram> gram(const GramRequest& request) = 0;
  // About (G + shift)^-1 from what the design knows of its features without a Gram matrix; null if nothing.
  virtual std::unique_ptr<Factor> preconditioner(double shift) = 0;

  virtual std::vector<Index> head_of_column() const = 0;  // (p), -1 for padding
  // Rows as the model file orders them: (M D, q) of heads, (m, q) of centres. Values of centres become the
  // coefficients a of sum_j a_j K(x, z_j).
  virtual Matrix<double> stored(MatrixView<const double> values) const = 0;
  virtual std::vector<double> stored_means() = 0;  // of heads, in the same order
};

// head_of_column(), stored() and stored_means() of a design of heads, whose map says where the columns of a
// head lie.
template <class Map>
std::vector<Index> heads_of_columns(const Map& map) {
  std::vector<Index> head(static_cast<std::size_t>(map.columns()), -1);
  for (Index m = 0; m < map.heads(); ++m)
    for (Index j = 0; j < map.width(); ++j) head[static_cast<std::size_t>(map.column_of(m, j))] = m;
  return head;
}
template <class Map>
Matrix<double> in_stored_order(const Map& map, MatrixView<const double> values) {
  Matrix<double> out(map.heads() * map.width(), values.cols);
  for (Index head = 0; head < map.heads(); ++head)
    for (Index j = 0; j < map.width(); ++j)
      std::copy_n(values.row(map.column_of(head, j)), values.cols, out.view().row(head * map.width() + j));
  return out;
}
template <class Map>
std::vector<double> in_stored_order(const Map& map, const std::vector<double>& means) {
  std::vector<double> out;
  for (Index head = 0; head < map.heads(); ++head)
    for (Index j = 0; j < map.width(); ++j)
      out.push_back(means[static_cast<std::size_t>(map.column_of(head, j))]);
  return out;
}

}  // namespace headlens::backend

// The recovery problem with W eliminated. F is linear in W: for fixed Theta, with Phi = [P^1 X, .., P^m X] (n
// k, m d),
//
//   W(Theta) = argmin |Phi W - Y|^2 + lambda |W|^2,    cost(Theta) = |Phi W - Y|^2 + lambda |W|^2 at that W,
//
// and the derivative of the residual along dTheta is, in Kaufman's approximation, -P_perp J dTheta with
// J dTheta = dPhi W and P_perp = I - Phi (Phi^T Phi + lambda)^-1 Phi^T (tangent.hpp).
// lambda = ridge * mean diagonal of Phi^T Phi, plus 1e-14 of it so that the factorisation exists.
#pragma once

#include <vector>

#include "attention/attention_map.hpp"
#include "linalg/matrix.hpp"

namespace headlens {

class VariableProjection {
 public:
  // x (n k, d), y (n k, e): views that outlive this. row_weights, where given: 1 for the rows that count, 0
  // for the others, whose y must be 0.
  VariableProjection(MatrixView<const double> x, MatrixView<const double> y, Index tokens, Index heads,
                     int threads, std::vector<double> row_weights = {});

  // What one Theta gives. Reused from step to step, since its arrays are the bulk of the memory.
  struct Point {
    Matrix<double> theta;     // (d, m d)
    Matrix<double> p;         // (n k m, k)
    Matrix<double> phi;       // (n k, m d)
    Matrix<double> w;         // (m d, e)
    Matrix<double> values;    // (n e, m k): (X W)^T of every example and head, once linearised
    Matrix<double> residual;  // (n k, e) Y - Phi W
    Matrix<double> gram;      // (m d, m d) Phi^T Phi, lower
    Matrix<double> product;   // (m d, e) Phi^T Y
    Matrix<double> factor;    // Cholesky of Phi^T Phi + lambda
    double squares = 0;       // |residual|^2
    double cost = 0;          // with the ridge
    bool finite = true;
  };
  Point make_point() const;
  void evaluate(Matrix<double> theta, double ridge, Point& point) const;

  void solve_for_w(double ridge, Point& point) const;  // another ridge at the same Theta

  void linearise(Point& point) const;  // before any of the following, and before a tangent is moved there
  // dtheta (d, m d) = J^T residual: minus half the slope of the cost.
  void gradient(const Point& point, MatrixView<double> dtheta) const;

  // B (m d, m d), lower: the mean over about `rows` rows of (C^i W_i)(C^j W_j)^T times n k, C the covariance
  // of the attended tokens. J^T J is about I_d x B for inputs with identity covariance.
  Matrix<double> curvature(const Point& point, Index rows) const;

  // K (m d, e): the stacked C^i W_i of one row.
  void slopes(const Point& point, Index row, MatrixView<double> out) const;

  template <class T>
  void weigh_rows(MatrixView<T> a) const;

  MatrixView<const double> x() const { return x_; }
  Index tokens() const { return map_.tokens(); }
  Index rows() const { return x_.rows; }
  Index dim() const { return x_.cols; }
  Index heads() const { return map_.heads(); }
  Index outputs() const { return y_.cols; }
  double y_squares() const { return y_squares_; }
  int threads() const { return threads_; }

 private:
  MatrixView<const double> x_, y_;
  AttentionMap<double> map_;
  int threads_;
  double y_squares_ = 0;
  std::vector<double> row_weights_;
};

template <class T>
void VariableProjection::weigh_rows(MatrixView<T> a) const {
  for (std::size_t i = 0; i < row_weights_.size(); ++i)
    for (Index j = 0; j < a.cols; ++j) a(static_cast<Index>(i), j) *= static_cast<T>(row_weights_[i]);
}

double squared_norm(MatrixView<const double> a);
double inner_product(MatrixView<const double> a, MatrixView<const double> b);

}  // namespace headlens

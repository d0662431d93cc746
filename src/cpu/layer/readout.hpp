// The linear part of the layer, eliminated: for features Phi (n k, p) and labels Y (n k, e)
//
//   W = (Phi^T Phi + lambda)^-1 Phi^T Y,     P_perp = I - Phi (Phi^T Phi + lambda)^-1 Phi^T = I - Q Q^T,
//
// Q = Phi L^-T, L L^T = Phi^T Phi + lambda. Q is computed in double, so that even in float P_perp is as good
// as a float product of orthonormal columns, however ill-conditioned Phi is. 1e-14 of the mean diagonal of
// Phi^T Phi is added to lambda, so that the factorisation exists.
#pragma once

#include "backend/layer_problem.hpp"
#include "linalg/matrix.hpp"

namespace headlens::cpu {

struct ReadoutPoint : backend::LayerPoint {
  ReadoutPoint(Index rows, Index features, Index outputs);

  Matrix<double> phi;       // (n k, p)
  Matrix<double> residual;  // (n k, e) Y - Phi W
  Matrix<double> gram;      // (p, p) Phi^T Phi, lower
  Matrix<double> product;   // (p, e) Phi^T Y
  Matrix<double> factor;    // L
};

// Of point.phi: the Gram matrix and Phi^T Y.
void gather_readout(MatrixView<const double> y, int threads, ReadoutPoint& point);

// W, residual, squares and cost for lambda = ridge * mean diagonal of the Gram matrix.
void solve_readout(MatrixView<const double> y, double y_squares, double ridge, int threads,
                   ReadoutPoint& point);

// q (n k, p) = Phi L^-T, rounded to T at the end.
template <class T>
void orthonormal_features(const ReadoutPoint& point, int threads, MatrixView<T> q);

// z = z - Q Q^T z
template <class T>
void project_out(MatrixView<const T> q, int threads, MatrixView<T> z);

// (Phi^T Phi + lambda)^-1 Phi^T z
Matrix<double> best_readout(const ReadoutPoint& point, MatrixView<const double> z, int threads);

}  // namespace headlens::cpu

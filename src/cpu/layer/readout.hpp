// The linear part of the layer, eliminated: for features Phi (n k, p) and labels Y (n k, e)
//
//   W = (Phi^T Phi + lambda)^-1 Phi^T Y,     P_perp = I - Phi (Phi^T Phi + lambda)^-1 Phi^T = I - Q Q^T,
//
// Q = Phi L^-T, L L^T = Phi^T Phi + lambda. Q is computed in double, so that even in float P_perp is as good
// as a float product of orthonormal columns, however ill-conditioned Phi is. 1e-14 of the mean diagonal of
// Phi^T Phi is added to lambda, so that the factorisation exists.
//
// Where labels are missing, every output c has rows of its own that count, S_c of ones and zeros. With Q of
// all rows, Phi^T S_c Phi + lambda = L (I - Q_c^T Q_c) L^T for the rows Q_c that are missing, so that
//
//   w_c = L^-T M_c^-1 L^-1 Phi^T S_c y_c,     P_perp z_c = S_c z_c - S_c Q M_c^-1 Q^T S_c z_c,   M_c = I -
//   Q_c^T Q_c.
//
// M_c costs as many products as labels are missing; outputs that miss the same rows share one.
//
// Over ranks, each of which has rows of its own, these are sums over rows: Phi^T Phi, Phi^T Y, Q^T z, the
// rows of Q_c and |Y - Phi W|^2 are summed, and everything else is equal on all of them.
#pragma once

#include "backend/layer_problem.hpp"
#include "backend/seen_labels.hpp"
#include "comm/communicator.hpp"
#include "linalg/matrix.hpp"

namespace headlens::cpu {

using backend::SeenLabels;

struct ReadoutPoint : backend::LayerPoint {
  // The ranks and seen_labels outlive the point.
  ReadoutPoint(Index rows, Index features, Index outputs, comm::Communicator& all_ranks,
               const SeenLabels* seen_labels = nullptr);

  Matrix<double> phi;         // (n k, p)
  Matrix<double> residual;    // (n k, e) Y - Phi W
  Matrix<double> gram;        // (p, p) Phi^T Phi, lower
  Matrix<double> product;     // (p, e) Phi^T Y
  Matrix<double> factor;      // L
  comm::Communicator& ranks;  // that have the other rows
  // Where labels are missing: of all groups of outputs, the factors of M_c.
  const SeenLabels* seen = nullptr;
  std::vector<Matrix<double>> cores;
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
void project_out(comm::Communicator& ranks, MatrixView<const T> q, int threads, MatrixView<T> z);

// z = P_perp z of the labels that count, with the q of this point.
template <class T>
void project_seen(const ReadoutPoint& point, MatrixView<const T> q, int threads, MatrixView<T> z);

// (Phi^T Phi + lambda)^-1 Phi^T z, of the labels that count
Matrix<double> best_readout(const ReadoutPoint& point, MatrixView<const double> z, int threads);

}  // namespace headlens::cpu

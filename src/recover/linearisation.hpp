// The derivative of the layer at one Theta as a triangular factor, for problems small enough to hold it.
//
// With Phi = Q_1 L_1^T, the rotated derivative of every output c splits into what W can absorb and what it
// cannot (Q_2 completes Q_1):
//
//   Q_1^T J_c = coupling_c (m d, m d^2),     Q_2^T J_c stacked over c = Q L^T,
//
// so L^T is P_perp J up to a rotation. Nothing is squared: directions that move the labels by 1e-12 of what
// others do are still seen, which the normal equations (cpu/layer/linear_model.hpp) lose at 1e-8.
//
// 2 n k e (m d^2)^2 flops, nearly all in the last QR.
#pragma once

#include <optional>

#include "recover/candidate.hpp"

namespace headlens::recovery {

struct Linearisation {
  Matrix<double> theta;     // (d, m d)
  Matrix<double> w;         // (m d, e): least squares at this Theta
  Matrix<double> phi;       // L_1 (m d, m d)
  Matrix<double> coupling;  // (e m d, m d^2)
  Matrix<double> factor;    // L (m d^2, m d^2)
  Matrix<double> along;     // (m d^2, 1): Q^T residual, what a step of Theta would remove
  double beyond = 0;        // |residual|^2 that no step removes
  double squares = 0;       // |residual|^2
  double magnitude = 0;     // (sum_i |Phi_i W_i|^2)^(1/2): what the labels are summed from
  double spread = 0;        // (sum_i |(X - mean of the example) W_i|^2)^(1/2): what logits act on
  Index equations = 0;

  Index unknowns() const { return theta.rows() * theta.cols() + w.rows() * w.cols(); }
};

// The first examples, as many as a dense factorisation needs; and whether it can be afforded at all.
Split dense_examples(const Split& split, Index heads);
bool can_be_dense(const Split& split, Index heads);
// Memory of one factorisation and of the bounds from it; 0 if it cannot be afforded.
double dense_bytes(const Split& split, Index heads);

// (sum_i |Phi_i W_i|^2)^(1/2) for heads of d coordinates.
double magnitude_of(MatrixView<const double> phi, const Matrix<double>& w, Index d);

// (sum_i |(X - mean of its example) W_i|^2)^(1/2). Weights of one query sum to one, so an error of a logit
// moves the output by differences of tokens only, however far all tokens lie from zero.
double spread_of(MatrixView<const double> x, Index tokens, const Matrix<double>& w);

// Not finite, or fewer equations than unknowns: no value.
std::optional<Linearisation> linearise(const Split& split, const Matrix<double>& theta, int threads);

// |residual|^2 with the best W, and that W.
struct Projected {
  double squares = 0;
  Matrix<double> w, residual;
};
std::optional<Projected> project(const Split& split, const Matrix<double>& theta, int threads);

}  // namespace headlens::recovery

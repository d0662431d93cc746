// The Jacobian of F(X) = sum_i softmax_rows(X Theta_i X^T) X W_i in all of (Theta, W), one entry at a time:
//
//   dF_a = sum_i (x_a^T dTheta_i) C_a^i W_i + sum_i mu_a^i dW_i
#pragma once

#include <cmath>
#include <vector>

#include "headlens/layer.hpp"
#include "linalg/matrix.hpp"

namespace headlens::reference {

// (n k e, m d d + m d e): first every Theta, then every W, each row by row.
inline Matrix<double> attention_jacobian(const AttentionLayer& layer, const Array& inputs) {
  const Index n = inputs.dim(0), k = inputs.dim(1), d = layer.dim(), m = layer.heads(), e = layer.outputs();
  const double *x_all = inputs.data<double>(), *theta = layer.theta.data<double>(),
               *w = layer.w.data<double>();
  Matrix<double> out = Matrix<double>::zeros(n * k * e, m * d * (d + e));
  for (Index row = 0; row < n * k; ++row) {
    const double *x = x_all + row / k * k * d, *own = x_all + row * d;
    for (Index i = 0; i < m; ++i) {
      std::vector<double> p(static_cast<std::size_t>(k)), mean(static_cast<std::size_t>(d), 0.0);
      double sum = 0;
      for (Index b = 0; b < k; ++b) {
        double logit = 0;
        for (Index q = 0; q < d; ++q)
          for (Index r = 0; r < d; ++r) logit += own[q] * theta[(i * d + q) * d + r] * x[b * d + r];
        sum += p[std::size_t(b)] = std::exp(logit);
      }
      for (Index b = 0; b < k; ++b)
        for (Index r = 0; r < d; ++r) mean[std::size_t(r)] += p[std::size_t(b)] / sum * x[b * d + r];
      for (Index r = 0; r < d; ++r)
        for (Index c = 0; c < e; ++c) {
          double cw = 0;  // (C W)_rc
          for (Index b = 0; b < k; ++b)
            for (Index s = 0; s < d; ++s)
              cw += p[std::size_t(b)] / sum * (x[b * d + r] - mean[std::size_t(r)]) *
                    (x[b * d + s] - mean[std::size_t(s)]) * w[(i * d + s) * e + c];
          for (Index q = 0; q < d; ++q) out(row * e + c, (i * d + q) * d + r) = own[q] * cw;
          out(row * e + c, m * d * d + (i * d + r) * e + c) = mean[std::size_t(r)];
        }
    }
  }
  return out;
}

// (J^T J)^-1: the Cramer-Rao bound on the covariance of any unbiased estimate, for noise of deviation one.
inline Matrix<double> inverse_information(const Matrix<double>& jacobian) {
  const Index p = jacobian.cols();
  Matrix<double> a = Matrix<double>::zeros(p, 2 * p);
  for (Index row = 0; row < jacobian.rows(); ++row)
    for (Index i = 0; i < p; ++i)
      for (Index j = 0; j < p; ++j) a(i, j) += jacobian(row, i) * jacobian(row, j);
  for (Index i = 0; i < p; ++i) a(i, p + i) = 1;
  for (Index pivot = 0; pivot < p; ++pivot) {  // Gauss-Jordan: the matrix is positive definite
    const double scale = 1 / a(pivot, pivot);
    for (Index j = 0; j < 2 * p; ++j) a(pivot, j) *= scale;
    for (Index i = 0; i < p; ++i) {
      if (i == pivot) continue;
      const double factor = a(i, pivot);
      for (Index j = 0; j < 2 * p; ++j) a(i, j) -= factor * a(pivot, j);
    }
  }
  Matrix<double> out(p, p);
  for (Index i = 0; i < p; ++i)
    for (Index j = 0; j < p; ++j) out(i, j) = a(i, p + j);
  return out;
}

}  // namespace headlens::reference

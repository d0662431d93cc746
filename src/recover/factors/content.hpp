// What labels tell of the logits of a head in factors. Without rotary positions that is Theta = Q K^T. With
// them it is, for every pair of columns that turn together, the complex product q k^* of q = q_1 + i q_2 and
// k = k_1 + i k_2, and Q_0 K_0^T of the columns that are not turned (attention/head_content.hpp). All of
// these are products of a few columns, so that no matrix of d^2 entries is formed:
//
//   [Re q k^* | Im q k^*] = A B^T,   A = (q_1, q_2) (d, 2),   B = ((k_1, k_2); (-k_2, k_1)) (2 d, 2)
#pragma once

#include <vector>

#include "recover/factors/factors.hpp"

namespace headlens::recovery {

// Contents: <C_a, C_b>, |C| and the cosine.
double theta_product(const HeadFactors& a, const HeadFactors& b);
double theta_norm(const HeadFactors& head);
double theta_cosine(const HeadFactors& a, const HeadFactors& b);
// Of a balanced head: the largest singular value of the matrices that its content is made of.
double largest_singular_value(const HeadFactors& head);

// The matrices A B^T side by side.
struct Product {
  Matrix<double> a, b;
};
using Products = std::vector<Product>;
double product_of(const Products& x, const Products& y);

// The error of a head's content, or of its W, where the factors move along a direction (d, columns), and O
// along another.
Products content_error(const Factors& factors, MatrixView<const double> direction, Index head);
Products w_error(const Factors& factors, MatrixView<const double> direction, MatrixView<const double> o,
                 Index head);

}  // namespace headlens::recovery

// What the labels tell of a head: Theta with the query bias, or with rotary positions what Theta(D) = Q R_D
// K^T is made of for every distance D. With the pair j of columns (q_1, q_2), (k_1, k_2),
//
//   Theta(D) = sum_j cos(D f_j) (q_1 k_1^T + q_2 k_2^T) + sin(D f_j) (q_1 k_2^T - q_2 k_1^T) + Q_0 K_0^T,
//
// Q_0 and K_0 the columns that are not turned. All these matrices side by side are the content of the head:
// no choice of the factors changes the content, and equal contents are equal heads.
#pragma once

#include "attention/variant_map.hpp"

namespace headlens {

std::vector<double> content_of(const VariantShape& shape, MatrixView<const double> parameters, Index head);
// To first order, along a direction of the parameters.
std::vector<double> content_change(const VariantShape& shape, MatrixView<const double> parameters,
                                   MatrixView<const double> direction, Index head);
double norm_of(const std::vector<double>& content);

}  // namespace headlens

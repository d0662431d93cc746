// One head by itself, to be put together with others into a TiedLayer.
#pragma once

#include <vector>

#include "attention/tied_map.hpp"

namespace headlens::refitting {

struct Head {
  Matrix<double> q, k;  // (rows, r)
  Matrix<double> v, o;  // (rows, s) and (s, e)
};
std::vector<Head> heads_in(const TiedLayer& layer);
// Keys and values of a group are those of its first head. Ranks are those of the widest head; others get
// columns of zeros. Constant: that of `like`, with its biases, mask and positions.
TiedLayer assemble(const std::vector<Head>& heads, Index groups, const TiedLayer& like);

// A B^T with A (n, p) and B (l, p), cut to its largest singular values, which both factors share.
struct Product {
  Matrix<double> left, right;  // (n, r), (l, r)
};
Product cut(MatrixView<const double> a, MatrixView<const double> b, Index rank);

// <A B^T, C D^T>, from small products.
double product_of(MatrixView<const double> a, MatrixView<const double> b, MatrixView<const double> c,
                  MatrixView<const double> d);
double theta_product(const Head& a, const Head& b);  // <Theta_a, Theta_b>
double w_product(const Head& a, const Head& b);

Matrix<double> beside(const std::vector<MatrixView<const double>>& parts);  // [A B ..]
Matrix<double> block_diagonal(const std::vector<MatrixView<const double>>& parts);

}  // namespace headlens::refitting

// The groups of numbers that describe a set, and their inner products. Features are large (200 d numbers per
// set for attention) and are never held for all blocks at once: a block leaves its Gram matrix.
#pragma once

#include <vector>

#include "automatic/tokens.hpp"

namespace headlens::automatic {

// (n, width of the block), not scaled.
Matrix<double> compute_block(const SetBlockInfo& block, const TokenFrame& frame, const Tokens& tokens,
                             int threads);

// <Phi_i, Phi'_j> of the scaled blocks of a member, and |Phi_i|^2.
struct Products {
  Matrix<double> inner;             // (n, m)
  std::vector<double> left, right;  // (n), (m)
};

// Of one block, not scaled. `b` may be `a`.
Products products_of(const SetBlockInfo& block, const TokenFrame& frame, const Tokens& a, const Tokens& b,
                     int threads);
// to += weight from.
void add(Products& to, const Products& from, double weight, int threads);

// Products of several members, which may share blocks: every block is computed once. `b` may be `a`.
std::vector<Products> block_products(const std::vector<AutomaticMember>& members, const TokenFrame& frame,
                                     const Tokens& a, const Tokens& b, int threads);

// The kernel of a member from its products, in place of `inner`.
Matrix<double> kernel_of(const AutomaticMember& member, Products products, int threads);
// K(x, x) of every row.
double kernel_of_itself(const AutomaticMember& member, double squared_norm);

}  // namespace headlens::automatic

#include "theory/gauss_rule.hpp"

#include <cmath>

#include "headlens/error.hpp"
#include "linalg/eigen.hpp"

namespace headlens {

GaussRule gauss_rule(const std::vector<double>& diagonal, const std::vector<double>& squares) {
  const Index count = static_cast<Index>(diagonal.size());
  Matrix<double> jacobi = Matrix<double>::zeros(count, count);
  for (Index k = 0; k < count; ++k) {
    jacobi(k, k) = diagonal[static_cast<std::size_t>(k)];
    if (k > 0) jacobi(k, k - 1) = std::sqrt(squares[static_cast<std::size_t>(k - 1)]);
  }
  const SymmetricEigen eigen = symmetric_eigen(jacobi);
  ensure(eigen.ok(), "no Gauss rule of ", count, " nodes");
  GaussRule rule{eigen.values, {}};
  for (Index k = 0; k < count; ++k) rule.weights.push_back(eigen.vectors(k, 0) * eigen.vectors(k, 0));
  return rule;
}

GaussRule normal_rule(Index nodes) {
  std::vector<double> squares;
  for (Index k = 1; k < nodes; ++k) squares.push_back(static_cast<double>(k));
  return gauss_rule(std::vector<double>(static_cast<std::size_t>(nodes), 0.0), squares);
}

GaussRule coordinate_rule(Index nodes, Index dim) {
  const double d = static_cast<double>(dim);
  std::vector<double> squares{1 / d};  // the formula below is 0 / 0 in the plane
  for (Index j = 2; j < nodes; ++j) {
    const double k = static_cast<double>(j);
    squares.push_back(k * (k + d - 3) / ((2 * k + d - 2) * (2 * k + d - 4)));
  }
  return gauss_rule(std::vector<double>(static_cast<std::size_t>(nodes), 0.0), squares);
}

GaussRule chi_square_rule(Index nodes, double freedom) {
  std::vector<double> diagonal, squares;
  for (Index j = 0; j < nodes; ++j) {
    const double k = static_cast<double>(j);
    diagonal.push_back(2 * (2 * k + 0.5 * freedom));
    if (j > 0) squares.push_back(4 * k * (k + 0.5 * freedom - 1));
  }
  return gauss_rule(diagonal, squares);
}

}  // namespace headlens

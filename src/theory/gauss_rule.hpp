// Gauss rules from three-term recurrences (Golub & Welsch 1969): the nodes are the eigenvalues of the Jacobi
// matrix, the weights the squares of the first entries of its eigenvectors. Weights sum to 1.
#pragma once

#include <vector>

#include "headlens/array.hpp"

namespace headlens {

struct GaussRule {
  std::vector<double> nodes, weights;
};

// `diagonal` has one entry per node; `squares` holds the squared entries beside it, one fewer.
GaussRule gauss_rule(const std::vector<double>& diagonal, const std::vector<double>& squares);

GaussRule normal_rule(Index nodes);                      // for g, standard normal
GaussRule coordinate_rule(Index nodes, Index dim);       // for T, one coordinate of a uniform unit vector
GaussRule chi_square_rule(Index nodes, double freedom);  // for the sum of `freedom` squares of normals

}  // namespace headlens

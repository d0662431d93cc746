// How closely all heads attend alike, row by row, judged with an estimate of S alone.
//
// If every head attends to the tokens of row a with the same weights lambda, then Y_a = lambda^T X S exactly.
// So lambda is fitted on the simplex, and the
//   score = |Y_a - lambda^T X S|^2 / (lambda-weighted variance of the rows of X S)
// is the squared distance from agreement in units of the tokens' spread; without that unit one-hot rows would
// win. Examples whose tokens x_b S are affinely dependent (two equal ones, or k > e + 1) do not determine
// lambda and have no score. Rows with max lambda >= 0.95 have none either: they bound log-odds from one side
// only, and have a one-hot score |Y_a - x_b S|^2 / min_{c != b} |(x_c - x_b) S|^2 instead.
#pragma once

#include <vector>

#include "recover/candidate.hpp"

namespace headlens::recovery::sculpting {

inline constexpr double kOneHot = 0.95;

struct Agreement {
  Matrix<double> lambda;         // (n k, k)
  Matrix<double> values;         // X S, (n k, e)
  std::vector<double> residual;  // (n k): |Y_a - lambda^T X S|^2; infinite where lambda is not determined
  std::vector<double> score;     // (n k); infinite where there is none
  std::vector<double> one_hot_score;  // (n k); infinite unless max lambda >= 0.95
};
Agreement measure_agreement(const Split& split, MatrixView<const double> s, int threads);

struct AcceptedRows {
  std::vector<Index> rows;  // by score, lowest first
  double tolerance = 0;     // square root of the highest score
};
// The `count` rows of lowest finite score; ties by row.
AcceptedRows lowest_scores(const std::vector<double>& score, Index count);

inline double squared_distance(const double* a, const double* b, Index size) {
  double sum = 0;
  for (Index j = 0; j < size; ++j) sum += (a[j] - b[j]) * (a[j] - b[j]);
  return sum;
}

}  // namespace headlens::recovery::sculpting

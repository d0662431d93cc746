#include "recover/sculpt_slabs.hpp"

#include <algorithm>
#include <cmath>

namespace headlens {
namespace {

// Weights below this are what the simplex fit makes of rounding and of the error of S.
constexpr double kSmallestWeight = 1e-3;

}  // namespace

Cuts cuts_from(const Split& split, const Agreement& agreement, const AcceptedRows& accepted) {
  Cuts cuts{split.train_x, split.tokens, {}, {}, accepted.tolerance};
  const Index k = split.tokens;
  for (const Index row : accepted.rows) {
    const double* lambda = agreement.lambda.view().row(row);
    const Index c = std::max_element(lambda, lambda + k) - lambda;
    for (Index b = 0; b < k; ++b)
      if (b != c && lambda[b] > kSmallestWeight)
        cuts.slabs.push_back({row, b, c, std::log(lambda[b] / lambda[c]), lambda[b]});
  }
  // As many half-spaces as slabs at most, of rows that agree at least as closely.
  const AcceptedRows one_hot = lowest_scores(
      agreement.one_hot_score, static_cast<Index>(cuts.slabs.size()) / std::max<Index>(1, k - 1));
  for (const Index row : one_hot.rows) {
    if (agreement.one_hot_score[static_cast<std::size_t>(row)] > accepted.tolerance * accepted.tolerance)
      break;
    const double* lambda = agreement.lambda.view().row(row);
    const Index c = std::max_element(lambda, lambda + k) - lambda;
    for (Index b = 0; b < k; ++b)
      if (b != c) cuts.half_spaces.push_back({row, b, c, std::log((1 - kOneHot) / kOneHot), 1 - kOneHot});
  }
  return cuts;
}

void write_normals(const Cuts& cuts, const std::vector<Cut>& which, Index first, MatrixView<double> normals) {
  const Index d = cuts.dim(), k = cuts.tokens;
  for (Index r = 0; r < normals.rows; ++r) {
    const Cut& cut = which[static_cast<std::size_t>(first + r)];
    const double root = std::sqrt(cut.weight);
    const double *xa = cuts.x.row(cut.row), *xb = cuts.x.row(cut.row / k * k + cut.b),
                 *xc = cuts.x.row(cut.row / k * k + cut.c);
    for (Index i = 0; i < d; ++i)
      for (Index j = 0; j < d; ++j) normals(r, i * d + j) = root * xa[i] * (xb[j] - xc[j]);
  }
}

}  // namespace headlens

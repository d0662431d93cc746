#include "recover/sculpt/agreement.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/parallel.hpp"
#include "linalg/min_norm_point.hpp"
#include "linalg/multiply.hpp"
#include "linalg/tiles.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::recovery::sculpting {
namespace {

constexpr Index kTileExamples = 256;
constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kDependent = 1e-9;  // of the mean |x S|^2: a squared distance that is none

// Whether the tokens of an example determine lambda. Equal tokens do not, nor does x_1 + x_2 = x_3 + x_4,
// which random signs meet now and then. Gram-Schmidt on the differences from the first token.
bool affinely_independent(MatrixView<const double> values, Matrix<double>& basis, double smallest) {
  const Index k = values.rows, e = values.cols;
  if (k - 1 > e) return false;
  for (Index b = 1; b < k; ++b) {
    double* v = basis.view().row(b - 1);
    for (Index j = 0; j < e; ++j) v[j] = values(b, j) - values(0, j);
    double square = 0;
    for (Index i = 0; i <= b - 1; ++i) {
      const double* u = basis.view().row(i);
      double along = 0;
      for (Index j = 0; j < e; ++j) along += u[j] * v[j];
      if (i < b - 1)
        for (Index j = 0; j < e; ++j) v[j] -= along * u[j];
      else
        square = along;
    }
    if (!(square > smallest)) return false;
    for (Index j = 0; j < e; ++j) v[j] /= std::sqrt(square);
  }
  return true;
}

struct RowScores {
  double residual, score, one_hot;  // squares; infinite where there is none
};

// One row: lambda, and its scores.
class RowFit {
 public:
  RowFit(Index tokens, Index outputs) : shifted_(tokens, outputs), gram_(tokens, tokens) {}

  // values: the k rows of X S. Writes lambda.
  RowScores operator()(MatrixView<const double> values, const double* y, double* lambda) {
    const Index k = values.rows, e = values.cols;
    for (Index b = 0; b < k; ++b)
      for (Index c = 0; c < e; ++c) shifted_(b, c) = values(b, c) - y[c];
    for (Index b = 0; b < k; ++b)
      for (Index c = 0; c <= b; ++c) {
        double sum = 0;
        for (Index j = 0; j < e; ++j) sum += shifted_(b, j) * shifted_(c, j);
        gram_(b, c) = gram_(c, b) = sum;
      }
    const std::vector<double>& weights = solver_.solve(std::as_const(gram_).view());
    std::copy(weights.begin(), weights.end(), lambda);
    double residual = 0, variance = 0;
    for (Index j = 0; j < e; ++j) {
      double mean = 0, square = 0;
      for (Index b = 0; b < k; ++b) {
        mean += lambda[b] * shifted_(b, j);
        square += lambda[b] * shifted_(b, j) * shifted_(b, j);
      }
      residual += mean * mean;
      variance += square - mean * mean;
    }
    const Index top = std::max_element(lambda, lambda + k) - lambda;
    if (lambda[top] >= kOneHot) return {residual, kNever, one_hot_score(values, top)};
    return {residual, residual / variance, kNever};
  }

 private:
  double one_hot_score(MatrixView<const double> values, Index top) const {
    double nearest = kNever;
    for (Index b = 0; b < values.rows; ++b)
      if (b != top)
        nearest = std::min(nearest, squared_distance(values.row(b), values.row(top), values.cols));
    return gram_(top, top) / nearest;
  }

  MinNormPoint solver_;
  Matrix<double> shifted_, gram_;
};

}  // namespace

Agreement measure_agreement(const Split& split, MatrixView<const double> s, int threads) {
  const MatrixView<const double> x = split.train_x, y = split.train_y;
  const Index k = split.tokens, e = y.cols, examples = x.rows / k;
  const std::vector<double> none(static_cast<std::size_t>(x.rows), kNever);
  Agreement out{Matrix<double>(x.rows, k), Matrix<double>(x.rows, e), none, none, none};
  multiply(Trans::no, Trans::no, 1.0, x, s, 0.0, out.values.view(), threads);
  const double smallest = kDependent * squared_norm(out.values) / static_cast<double>(x.rows);
  parallel_for(threads, tile_count(examples, kTileExamples), [&](Index item, int) {
    const Tile tile = tile_at(examples, kTileExamples, item);
    RowFit fit(k, e);
    Matrix<double> basis(std::max<Index>(1, k - 1), e);
    for (Index first = tile.begin * k; first < (tile.begin + tile.size) * k; first += k) {
      const MatrixView<const double> here = std::as_const(out.values).view().block(first, 0, k, e);
      const bool determined = affinely_independent(here, basis, smallest);
      for (Index row = first; row < first + k; ++row) {
        const RowScores scores = fit(here, y.row(row), out.lambda.view().row(row));
        if (!determined) continue;
        const auto at = static_cast<std::size_t>(row);
        out.residual[at] = scores.residual, out.score[at] = scores.score;
        out.one_hot_score[at] = scores.one_hot;
      }
    }
  });
  return out;
}

AcceptedRows lowest_scores(const std::vector<double>& score, Index count) {
  std::vector<std::pair<double, Index>> finite;
  for (std::size_t row = 0; row < score.size(); ++row)
    if (std::isfinite(score[row])) finite.emplace_back(score[row], static_cast<Index>(row));
  const auto kept = std::min(finite.size(), static_cast<std::size_t>(std::max<Index>(0, count)));
  std::partial_sort(finite.begin(), finite.begin() + static_cast<std::ptrdiff_t>(kept), finite.end());
  AcceptedRows out;
  for (std::size_t i = 0; i < kept; ++i) out.rows.push_back(finite[i].second);
  if (kept > 0) out.tolerance = std::sqrt(finite[kept - 1].first);
  return out;
}

}  // namespace headlens::recovery::sculpting

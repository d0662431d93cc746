#include "recover/certificate/token_span.hpp"

#include <algorithm>
#include <cmath>

#include "headlens/error.hpp"
#include "linalg/blas.hpp"
#include "linalg/eigen.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::recovery {
namespace {

constexpr double kNever =
    1e-14;                      // of the largest variance: what a sum of squares in double can tell from none
constexpr double kPart = 1e-6;  // of a direction: smaller entries are rounding
constexpr Index kEnough = 4;    // times d: rows that show all directions where all are seen

// The eigenvalues of the tokens' covariance within examples, over the first rows, times the rows.
SymmetricEigen within_examples(const Split& split, Index rows) {
  const Index d = split.train_x.cols, k = split.tokens;
  Matrix<double> centred(rows, d), moment(d, d);
  for (Index first = 0; first < rows; first += k)
    for (Index q = 0; q < d; ++q) {
      double mean = 0;
      for (Index t = 0; t < k; ++t) mean += split.train_x(first + t, q) / static_cast<double>(k);
      for (Index t = 0; t < k; ++t) centred(first + t, q) = split.train_x(first + t, q) - mean;
    }
  syrk(Trans::yes, 1.0, centred.view(), 0.0, moment.view());
  return symmetric_eigen(moment.view());
}

// The same of the examples' means.
SymmetricEigen of_means(const Split& split, Index n) {
  const Index d = split.train_x.cols, k = split.tokens;
  Matrix<double> means = Matrix<double>::zeros(n, d), moment(d, d);
  for (Index row = 0; row < n * k; ++row)
    for (Index q = 0; q < d; ++q) means(row / k, q) += split.train_x(row, q) / static_cast<double>(k);
  syrk(Trans::yes, 1.0, means.view(), 0.0, moment.view());
  return symmetric_eigen(moment.view());
}

// Sums of squares only grow with the examples, and no eigenvalue of all of them is above |X|^2.
bool shows_all(const SymmetricEigen& some, double squares) {
  return some.ok() && some.values.front() > kNever * squares;
}

}  // namespace

std::vector<std::vector<double>> unseen_directions(const Split& split) {
  const Index d = split.train_x.cols, k = split.tokens, rows = split.train_x.rows;
  const Index some = std::min(rows, (kEnough * d + k - 1) / k * k);
  if (some < rows && shows_all(within_examples(split, some), squared_norm(split.train_x))) return {};
  const SymmetricEigen eigen = within_examples(split, rows);
  std::vector<std::vector<double>> out;
  for (Index j = 0; eigen.ok() && j < d; ++j) {
    if (eigen.values[static_cast<std::size_t>(j)] > kNever * eigen.values.back()) break;
    const double* row = eigen.vectors.view().row(j);
    out.emplace_back(row, row + d);
  }
  return out;
}

bool means_are_seen(const Split& split) {
  const Index n = split.train_x.rows / split.tokens, some = std::min(n, kEnough * split.train_x.cols);
  const double squares = squared_norm(split.train_x);
  return shows_all(of_means(split, some), squares) || (some < n && shows_all(of_means(split, n), squares));
}

std::string describe_direction(const std::vector<double>& direction) {
  std::vector<std::size_t> parts;
  for (std::size_t q = 0; q < direction.size(); ++q)
    if (std::abs(direction[q]) > kPart) parts.push_back(q);
  if (parts.size() == 1) return join("coordinate ", parts[0], " of the tokens");
  std::string text = "one combination of the coordinates ";
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i == 6 && parts.size() > 7) return text + join(", .. (", parts.size(), " in all) of the tokens");
    text += join(i ? ", " : "", parts[i]);
  }
  return text + " of the tokens";
}

}  // namespace headlens::recovery

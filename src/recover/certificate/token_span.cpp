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

}  // namespace

std::vector<std::vector<double>> unseen_directions(const Split& split) {
  const Index d = split.train_x.cols, k = split.tokens, rows = split.train_x.rows;
  Matrix<double> centred(rows, d), moment(d, d);
  for (Index first = 0; first < rows; first += k)
    for (Index q = 0; q < d; ++q) {
      double mean = 0;
      for (Index t = 0; t < k; ++t) mean += split.train_x(first + t, q) / static_cast<double>(k);
      for (Index t = 0; t < k; ++t) centred(first + t, q) = split.train_x(first + t, q) - mean;
    }
  syrk(Trans::yes, 1.0, centred.view(), 0.0, moment.view());
  const SymmetricEigen eigen = symmetric_eigen(moment.view());
  std::vector<std::vector<double>> out;
  for (Index j = 0; eigen.ok() && j < d; ++j) {
    if (eigen.values[static_cast<std::size_t>(j)] > kNever * eigen.values.back()) break;
    const double* row = eigen.vectors.view().row(j);
    out.emplace_back(row, row + d);
  }
  return out;
}

bool means_are_seen(const Split& split) {
  const Index d = split.train_x.cols, k = split.tokens, n = split.train_x.rows / k;
  Matrix<double> means = Matrix<double>::zeros(n, d), moment(d, d);
  for (Index row = 0; row < n * k; ++row)
    for (Index q = 0; q < d; ++q) means(row / k, q) += split.train_x(row, q) / static_cast<double>(k);
  syrk(Trans::yes, 1.0, means.view(), 0.0, moment.view());
  const SymmetricEigen eigen = symmetric_eigen(moment.view());
  return eigen.ok() && eigen.values.front() > kNever * squared_norm(split.train_x);
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

#include "recover/factors/whiten.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "headlens/error.hpp"
#include "linalg/blas.hpp"
#include "linalg/eigen.hpp"
#include "linalg/gram.hpp"
#include "linalg/multiply.hpp"
#include "linalg/svd.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::recovery {
namespace {

constexpr double kWhite = 2;        // largest over smallest eigenvalue of tokens that are left as they are
constexpr double kNothing = 1e-14;  // of the largest eigenvalue: outside the span of the tokens

Matrix<double> turned(MatrixView<const double> x, const Matrix<double>& turn, int threads) {
  Matrix<double> out(x.rows, turn.cols());
  multiply(Trans::no, Trans::no, 1.0, x, turn.view(), 0.0, out.view(), threads);
  return out;
}

SymmetricEigen second_moment(const Split& split, int threads) {
  const Index d = split.train_x.cols;
  Matrix<double> moment = Matrix<double>::zeros(d, d);
  add_inner(split.train_x, moment.view(), threads);
  for (Index i = 0; i < d * d; ++i) moment.data()[i] /= static_cast<double>(split.train_x.rows);
  return symmetric_eigen(moment.view());
}

bool spans_all(const SymmetricEigen& eigen) {
  return eigen.ok() && eigen.values.front() > kNothing * eigen.values.back();
}

Whitening by_root_of(const SymmetricEigen& eigen, const Split& split, int threads) {
  const Index d = split.train_x.cols;
  Whitening out;
  const double largest = eigen.ok() ? eigen.values.back() : 0;
  if (!(largest > 0)) return out;
  const double mean = std::sqrt(largest * std::max(eigen.values.front(), 0.0));
  if (largest < kWhite * eigen.values.front() && mean > 0.5 && mean < 2) return out;
  out.plain = false;
  Matrix<double> scaled = Matrix<double>::zeros(d, d);
  for (Index j = 0; j < d; ++j) {
    const double value = eigen.values[static_cast<std::size_t>(j)];
    if (!(value > kNothing * largest)) continue;
    for (Index i = 0; i < d; ++i) scaled(j, i) = eigen.vectors(j, i) * std::pow(value, -0.25);
  }
  out.turn = Matrix<double>(d, d);
  gemm(Trans::yes, Trans::no, 1.0, std::as_const(scaled).view(), std::as_const(scaled).view(), 0.0,
       out.turn.view());
  out.train_x = turned(split.train_x, out.turn, threads);
  out.held_x = turned(split.held_x, out.turn, threads);
  return out;
}

Whitening in_span_of(const SymmetricEigen& eigen, const Split& split, int threads) {
  const Index d = split.train_x.cols;
  require(eigen.ok() && eigen.values.back() > 0, "X: all tokens of the training examples are zero");
  const auto seen = [&](Index j) {
    return eigen.values[static_cast<std::size_t>(j)] > kNothing * eigen.values.back();
  };
  Index first = 0;  // eigenvalues rise
  while (!seen(first)) ++first;
  Whitening out;
  out.plain = false;
  out.turn = Matrix<double>(d, d - first);
  for (Index j = first; j < d; ++j)
    for (Index i = 0; i < d; ++i)
      out.turn(i, j - first) = eigen.vectors(j, i) / std::sqrt(eigen.values[static_cast<std::size_t>(j)]);
  out.train_x = turned(split.train_x, out.turn, threads);
  out.held_x = turned(split.held_x, out.turn, threads);
  return out;
}

}  // namespace

double second_moment_ratio(const Split& split, int threads) {
  const SymmetricEigen eigen = second_moment(split, threads);
  return spans_all(eigen) ? eigen.values.back() / eigen.values.front()
                          : std::numeric_limits<double>::infinity();
}

Whitening whiten(const Split& split, int threads) {
  const SymmetricEigen eigen = second_moment(split, threads);
  return spans_all(eigen) ? by_root_of(eigen, split, threads) : in_span_of(eigen, split, threads);
}

Whitening whiten_centred(const Split& with_ones, int threads) {
  const MatrixView<const double> x = with_ones.train_x;
  const Index d = x.cols - 1;
  std::vector<double> mean(static_cast<std::size_t>(d));
  double count = 0;  // rows of padding have no 1
  for (Index i = 0; i < x.rows; ++i) count += x(i, d);
  for (Index i = 0; i < x.rows; ++i)
    for (Index j = 0; j < d; ++j) mean[static_cast<std::size_t>(j)] += x(i, j) / count;
  Matrix<double> centred(x.rows, d);
  for (Index i = 0; i < x.rows; ++i)
    for (Index j = 0; j < d; ++j) centred(i, j) = x(i, d) * (x(i, j) - mean[static_cast<std::size_t>(j)]);
  Split inner{centred.view(), with_ones.train_y, {nullptr, 0, d}, with_ones.held_y, with_ones.tokens};
  const Matrix<double> turn = in_span_of(second_moment(inner, threads), inner, threads).turn;
  const Index s = turn.cols();
  Whitening out;
  out.plain = false;
  out.turn = Matrix<double>::zeros(d + 1, s + 1);
  for (Index j = 0; j < d; ++j)
    for (Index b = 0; b < s; ++b) {
      out.turn(j, b) = turn(j, b);
      out.turn(d, b) -= mean[static_cast<std::size_t>(j)] * turn(j, b);
    }
  out.turn(d, s) = 1;
  out.train_x = turned(with_ones.train_x, out.turn, threads);
  out.held_x = turned(with_ones.held_x, out.turn, threads);
  return out;
}

Split in_white(const Whitening& whitening, const Split& split) {
  Split out = split;
  if (whitening.plain) return out;
  out.train_x = whitening.train_x.view();
  out.held_x = whitening.held_x.view();
  return out;
}

double stretch(const Whitening& whitening, const std::vector<double>& units) {
  double largest = 0;
  if (whitening.plain) {
    for (const double unit : units) largest = std::max(largest, unit);
    return largest;
  }
  Matrix<double> turn = headlens::copy_of(whitening.turn);
  for (Index i = 0; i < turn.rows(); ++i)
    for (Index j = 0; j < turn.cols(); ++j) turn(i, j) *= units[static_cast<std::size_t>(i)];
  const Svd all = svd(turn.view());
  return all.ok ? all.values.front() : std::numeric_limits<double>::infinity();
}

double rounding_outside(const Whitening& whitening, const Split& split, double logits) {
  const double grown = whitening.plain ? 1
                                       : squared_norm(whitening.turn) * squared_norm(split.train_x) /
                                             squared_norm(whitening.train_x);
  // A change of all logits by less than c changes no weight of a token by more than the share 2 c.
  return std::numeric_limits<double>::epsilon() * static_cast<double>(split.train_x.cols) * grown *
         (1 + 2 * logits);
}

Factors from_white(const Whitening& whitening, const Factors& factors) {
  Factors out = copy_of(factors);
  if (whitening.plain) return out;
  out.values.parameters = Matrix<double>(whitening.turn.rows(), factors.values.parameters.cols());
  gemm(Trans::no, Trans::no, 1.0, whitening.turn.view(), factors.values.parameters.view(), 0.0,
       out.values.parameters.view());
  return out;
}

}  // namespace headlens::recovery

// Gram matrices of rounded vectors against triple loops, to the error that rounding allows.
#include "cpu/products/rounded_gram.hpp"

#include <cstring>

#include "cpu/products/float_products.hpp"
#include "linalg/matrices.hpp"

namespace headlens::cpu {
namespace {

using namespace reference;

enum class Kind { outer, inner };

// |x_i^T x_j - (x_i + e_i)^T (x_j + e_j)| <= |e_i| |x_j|_1 + |e_j| |x_i|_1 + steps |e_i| |e_j|, panel by
// panel, with |e| = |x| / (2 kRoundedItem); and every panel is a float sum.
double error_bound(const Matrix<double>& vectors, Index i, Index j) {
  double bound = 0, total = 0;
  for (Index first = 0; first < vectors.cols(); first += kRoundedSteps) {
    const Index steps = std::min(kRoundedSteps, vectors.cols() - first);
    double square_i = 0, square_j = 0, sum_i = 0, sum_j = 0;
    for (Index k = first; k < first + steps; ++k) {
      square_i += vectors(i, k) * vectors(i, k), sum_i += std::abs(vectors(i, k));
      square_j += vectors(j, k) * vectors(j, k), sum_j += std::abs(vectors(j, k));
    }
    const double unit = (0.5 + double(steps) * kEpsFloat) / double(kRoundedItem),
                 e_i = unit * std::sqrt(square_i), e_j = unit * std::sqrt(square_j);
    bound += e_i * sum_j + e_j * sum_i + double(steps) * e_i * e_j;
    total += std::sqrt(square_i * square_j);
    bound += 4 * kEpsFloat * total;
  }
  return bound;
}

// Of the columns some are left out, others come twice and in disorder: only the first are neighbours.
std::vector<Index> some_columns(Index size) {
  std::vector<Index> out;
  for (Index j = 0; j < size; ++j) out.push_back(j < 64 ? j + 3 : 200 - j / 2);
  return out;
}

void check(Kind kind, Index size, Index depth) {
  const bool outer = kind == Kind::outer;
  const auto columns = some_columns(size);
  const auto rows =
      outer ? random_matrix<float>(size, depth, "rows") : random_matrix<float>(depth, 204, "rows");
  Matrix<double> vectors(size, depth);
  for (Index i = 0; i < size; ++i)
    for (Index k = 0; k < depth; ++k)
      vectors(i, k) = double(outer ? rows(i, k) : rows(k, columns[std::size_t(i)]));
  const auto want = product(vectors, transposed(vectors));
  Matrix<float> first;
  for (const int threads : kThreadCounts) {
    auto gram = Matrix<float>::zeros(size, size);
    for (Index i = 0; i < size; ++i)
      for (Index j = i + 1; j < size; ++j) gram(i, j) = 7;
    outer ? add_rounded_outer(rows, gram, threads) : add_rounded_inner(rows, columns, gram, threads);
    for (Index i = 0; i < size; ++i) {
      for (Index j = 0; j <= i; ++j)
        ASSERT_NEAR(double(gram(i, j)), want(i, j), error_bound(vectors, i, j))
            << size << " x " << depth << " at " << i << ", " << j;
      for (Index j = i + 1; j < size; ++j) ASSERT_EQ(gram(i, j), 7);
    }
    if (threads == 1)
      first = std::move(gram);
    else
      ASSERT_EQ(std::memcmp(first.data(), gram.data(), sizeof(float) * std::size_t(size * size)), 0);
  }
}

TEST(RoundedGram, MatchesTripleLoop) {
  for (const Kind kind : {Kind::outer, Kind::inner}) {
    for (const Index size : {0, 1, 31, 32, 33, 300}) check(kind, size, 37);
    for (const Index depth : {0, 1, 2, 511, 512, 513, 1300}) check(kind, 40, depth);
  }
}

// The noise of rounding is far below its bound, since items are rounded up and down alike: a sum of `depth`
// independent errors of variance unit^2 / 12 on either side. Ten of its standard deviations are allowed.
TEST(RoundedGram, ErrorsAverageOut) {
  const Index depth = 8 * kRoundedSteps;
  const auto rows = random_matrix<float>(64, depth, "rows");
  const auto vectors = to_double(rows);
  const auto want = product(vectors, transposed(vectors));
  auto gram = Matrix<float>::zeros(64, 64);
  add_rounded_outer(rows, gram, 1);
  for (Index i = 0; i < 64; ++i)
    for (Index j = 0; j < i; ++j) {
      const double norms = std::sqrt(want(i, i) * want(j, j)) / 8;  // of a panel, nearly
      const double deviation = std::sqrt(2.0 / 12.0 * 8.0) * norms / double(kRoundedNorm);
      ASSERT_NEAR(double(gram(i, j)), want(i, j), 10 * deviation + 8 * kEpsFloat * 8 * norms);
    }
}

}  // namespace
}  // namespace headlens::cpu

// Gram sums against triple loops: values, the untouched upper triangle, float accuracy, threads.
#include "linalg/gram.hpp"

#include <gtest/gtest.h>

#include "headlens/error.hpp"
#include "matrices.hpp"

namespace headlens {
namespace {

using namespace reference;

enum class Kind { outer, inner };

template <class T>
void add(Kind kind, const Matrix<T>& rows, Matrix<double>& gram, int threads) {
  kind == Kind::outer ? add_outer(rows, gram, threads) : add_inner(rows, gram, threads);
}

// A matrix whose Gram has the given size and whose summed dimension is `depth`.
template <class T>
Matrix<T> rows_for(Kind kind, Index size, Index depth) {
  return kind == Kind::outer ? random_matrix<T>(size, depth, "rows") : random_matrix<T>(depth, size, "rows");
}

Matrix<double> as_double(const Matrix<float>& a) { return to_double(a); }
Matrix<double> as_double(const Matrix<double>& a) { return copy_of(a); }

// The longest float sum is one panel; panels and double sums are added in double.
double error_bound(float, Index depth) {
  return double(std::min(depth, kGramPanel) + 2) * kEpsFloat + double(depth) * kEps;
}
double error_bound(double, Index depth) { return double(depth + 2) * kEps; }

template <class T>
void check(Kind kind, Index size, Index depth) {
  const auto rows = rows_for<T>(kind, size, depth);
  auto gram = Matrix<double>::zeros(size, size);
  for (Index i = 0; i < size; ++i)
    for (Index j = 0; j <= i; ++j) gram(i, j) = double(i - j);
  poison_upper(gram);
  add(kind, rows, gram, 1);
  EXPECT_TRUE(upper_is_poisoned(gram));
  const auto wide = kind == Kind::outer ? as_double(rows) : transposed(as_double(rows));
  const auto want = product(wide, transposed(wide));
  for (Index i = 0; i < size; ++i)
    for (Index j = 0; j <= i; ++j) {
      const double scale = std::sqrt(want(i, i) * want(j, j));  // at least |a| |a|^T
      ASSERT_NEAR(gram(i, j) - double(i - j), want(i, j),
                  2 * error_bound(T{}, depth) * scale + 4 * kEps * double(size))
          << size << " x " << depth << " at " << i << ", " << j;
    }
}

TEST(Gram, MatchesTripleLoop) {
  for (const Kind kind : {Kind::outer, Kind::inner}) {
    for (const Index size : {0, 1, 2, 255, 256, 257, 300}) {
      check<double>(kind, size, 37);
      check<float>(kind, size, 37);
    }
    for (const Index depth : {0, 1, 1023, 1024, 1025, 2500}) {
      check<double>(kind, 20, depth);
      check<float>(kind, 20, depth);
    }
    check<double>(kind, 700, 64);
  }
}

TEST(Gram, AddsToWhatIsThere) {
  const auto rows = random_matrix(20, 30, "rows");
  auto once = Matrix<double>::zeros(20, 20), twice = Matrix<double>::zeros(20, 20);
  add_outer(rows, once, 1);
  add_outer(rows, twice, 1);
  add_outer(rows, twice, 1);
  for (Index i = 0; i < 20; ++i)
    for (Index j = 0; j <= i; ++j)
      EXPECT_NEAR(twice(i, j), 2 * once(i, j), 64 * kEps * norm(rows) * norm(rows));
}

template <class T>
void check_threads(Kind kind) {
  const auto rows = rows_for<T>(kind, 700, 1300);
  Matrix<double> first;
  for (const int threads : kThreadCounts) {
    auto gram = Matrix<double>::zeros(700, 700);
    add(kind, rows, gram, threads);
    if (threads == 1)
      first = std::move(gram);
    else
      EXPECT_TRUE(same_bits(first, gram)) << threads << " threads";
  }
}

TEST(Gram, IgnoresThreads) {
  for (const Kind kind : {Kind::outer, Kind::inner}) {
    check_threads<double>(kind);
    check_threads<float>(kind);
  }
}

// Sizes from 4096 on use larger tiles; the reference here is the Gram of a part.
TEST(Gram, LargeTilesAgreeWithSmallOnes) {
  const auto rows = random_matrix<float>(8, 4500, "rows");
  auto gram = Matrix<double>::zeros(4500, 4500), part = Matrix<double>::zeros(600, 600);
  add_inner(rows, gram, 3);
  Matrix<float> last(8, 600);
  for (Index i = 0; i < 8; ++i)
    for (Index j = 0; j < 600; ++j) last(i, j) = rows(i, 3900 + j);
  add_inner(last, part, 1);
  for (Index i = 0; i < 600; ++i)
    for (Index j = 0; j <= i; ++j) {
      const double scale = std::sqrt(part(i, i) * part(j, j));
      ASSERT_NEAR(gram(3900 + i, 3900 + j), part(i, j), 2 * error_bound(0.0F, 8) * scale);
    }
}

TEST(Gram, WrongShapeIsABug) {
  const Matrix<double> rows(3, 4);
  Matrix<double> gram(4, 4);
  EXPECT_THROW(add_outer(rows, gram, 1), Bug);
}

}  // namespace
}  // namespace headlens

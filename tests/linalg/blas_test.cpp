// The BLAS wrappers against triple loops, on strided views and on empty shapes.
#include "linalg/blas.hpp"

#include <gtest/gtest.h>

#include "headlens/error.hpp"
#include "linalg/multiply.hpp"
#include "matrices.hpp"

namespace headlens {
namespace {

using namespace reference;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A view inside a larger array, so that a wrong stride shows.
template <class T>
MatrixView<T> inner(Matrix<T>& a, Index rows, Index cols) {
  return a.view().block(1, 2, rows, cols);
}

Matrix<double> op(Trans trans, MatrixView<const double> a) {
  return trans == Trans::no ? copy_of(a) : transposed(a);
}

// |computed - exact| <= (k + 2) eps |A| |B| for a dot product of length k in any order; the reference errs as
// much.
void expect_product(MatrixView<const double> c, MatrixView<const double> a, MatrixView<const double> b,
                    double eps) {
  const auto want = product(a, b), scale = product(absolute(a), absolute(b));
  for (Index i = 0; i < c.rows; ++i)
    for (Index j = 0; j < c.cols; ++j)
      ASSERT_LE(std::abs(c(i, j) - want(i, j)), 2 * double(a.cols + 2) * eps * scale(i, j)) << i << ", " << j;
}

struct Sizes {
  Index m, n, k;
};
const Sizes kProductSizes[] = {{1, 1, 1}, {1, 7, 5}, {7, 1, 5}, {3, 4, 1}, {33, 65, 17}, {130, 60, 257}};
const Trans kTrans[] = {Trans::no, Trans::yes};

template <class T>
class Gemm : public testing::Test {};
using Reals = testing::Types<float, double>;
TYPED_TEST_SUITE(Gemm, Reals);

Matrix<double> as_double(MatrixView<const float> a) { return to_double(a); }
Matrix<double> as_double(MatrixView<const double> a) { return copy_of(a); }

TYPED_TEST(Gemm, MatchesTripleLoop) {
  using T = TypeParam;
  for (const auto& [m, n, k] : kProductSizes)
    for (const Trans ta : kTrans)
      for (const Trans tb : kTrans) {
        auto a = random_matrix<T>(m + k + 4, m + k + 4, "a"), b = random_matrix<T>(n + k + 4, n + k + 4, "b");
        auto c = random_matrix<T>(m + 4, n + 4, "c");
        const auto va = ta == Trans::no ? inner(a, m, k) : inner(a, k, m);
        const auto vb = tb == Trans::no ? inner(b, k, n) : inner(b, n, k);
        const auto vc = inner(c, m, n);
        const T outside = c(0, 0);
        for (Index i = 0; i < m; ++i) vc(i, 0) = std::numeric_limits<T>::quiet_NaN();  // beta = 0: not read
        gemm(ta, tb, T{1}, va, vb, T{0}, vc);
        expect_product(as_double(vc), op(ta, as_double(va)), op(tb, as_double(vb)),
                       std::numeric_limits<T>::epsilon());
        EXPECT_EQ(c(0, 0), outside);
      }
}

TYPED_TEST(Gemm, AlphaAndBeta) {
  using T = TypeParam;
  for (const auto& [m, n, k] : kProductSizes) {
    const auto a = random_matrix<T>(m, k, "a"), b = random_matrix<T>(k, n, "b");
    Matrix<T> once(m, n), again(m, n);
    gemm(Trans::no, Trans::no, T{1}, a, b, T{0}, once);
    gemm(Trans::no, Trans::no, T{1}, a, b, T{0}, again);
    gemm(Trans::no, Trans::no, T{-2}, a, b, T{2}, again);
    for (Index i = 0; i < m; ++i)
      for (Index j = 0; j < n; ++j) {
        const double scale = double(k) * 100 * std::numeric_limits<T>::epsilon();
        EXPECT_NEAR(again(i, j), 0.0, scale) << once(i, j);
      }
  }
}

TEST(Blas, EmptyShapes) {
  Matrix<double> none(0, 5), tall(5, 0), c(5, 5), empty(0, 0);
  for (Index i = 0; i < 25; ++i) c.data()[i] = kNan;
  gemm(Trans::no, Trans::no, 1.0, tall, none, 0.0, c);
  for (Index i = 0; i < 25; ++i) EXPECT_EQ(c.data()[i], 0.0);
  gemm(Trans::no, Trans::no, 1.0, none, c, 0.0, none);
  gemm(Trans::no, Trans::no, 1.0, empty, empty, 1.0, empty);
  syrk(Trans::no, 1.0, tall, 1.0, c);
  syrk(Trans::yes, 1.0, tall, 1.0, empty);
  trsm(Side::left, Trans::no, empty, none);
  symm(Triangle::lower, 1.0, empty, none, 0.0, none);
  multiply(Trans::no, Trans::no, 1.0, tall, none, 0.0, c, 2);
  multiply_symmetric(Triangle::lower, empty, none, none, 2);
}

TEST(Blas, WrongShapesAreBugs) {
  Matrix<double> a(3, 4), b(5, 2), c(3, 2);
  EXPECT_THROW(gemm(Trans::no, Trans::no, 1.0, a, b, 0.0, c), Bug);
  EXPECT_THROW(multiply(Trans::no, Trans::no, 1.0, a, b, 0.0, a, 1), Bug);
  EXPECT_THROW(syrk(Trans::no, 1.0, a, 0.0, c), Bug);
  EXPECT_THROW(trsm(Side::left, Trans::no, a, c), Bug);
  EXPECT_THROW(blas_int(Index{1} << 31), Bug);
}

TEST(Blas, SyrkTouchesTheLowerTriangleOnly) {
  for (const Trans trans : kTrans) {
    const auto a = random_matrix(40, 40, "a");
    Matrix<double> c(40, 40);
    poison_upper(c);
    syrk(trans, 1.0, a, 0.0, c);
    EXPECT_TRUE(upper_is_poisoned(c));
    const auto left = op(trans, a);
    const auto want = product(left, transposed(left));
    for (Index i = 0; i < 40; ++i)
      for (Index j = 0; j <= i; ++j)
        EXPECT_NEAR(c(i, j), want(i, j), 2 * 42 * kEps * std::sqrt(want(i, i) * want(j, j)));
  }
}

TEST(Blas, Syr2kAndSymm) {
  const auto a = random_matrix(30, 9, "a"), b = random_matrix(30, 9, "b");
  Matrix<double> c(30, 30), out(30, 9);
  poison_upper(c);
  syr2k(1.0, a, b, 0.0, c);
  EXPECT_TRUE(upper_is_poisoned(c));
  auto full = product(a, transposed(b));
  for (Index i = 0; i < 30; ++i)
    for (Index j = 0; j <= i; ++j) {
      const double want = full(i, j) + full(j, i);
      EXPECT_NEAR(c(i, j), want, 2 * 20 * kEps * norm(a) * norm(b));
    }
  symm(Triangle::lower, 1.0, c, a, 0.0, out);
  for (Index i = 0; i < 30; ++i)
    for (Index j = 0; j < i; ++j) c(j, i) = c(i, j);
  expect_product(out, c, a, kEps);
}

TYPED_TEST(Gemm, TrsmSolves) {
  using T = TypeParam;
  for (const Index n : {1, 5, 64, 100})
    for (const Index q : {1, 3, 50})
      for (const Trans trans : kTrans)
        for (const Side side : {Side::left, Side::right}) {
          auto lower = random_matrix<T>(n, n, "l");
          for (Index i = 0; i < n; ++i) {
            lower(i, i) = T(n + 1);
            for (Index j = i + 1; j < n; ++j) lower(i, j) = std::numeric_limits<T>::quiet_NaN();
          }
          auto x = side == Side::left ? random_matrix<T>(n, q, "x") : random_matrix<T>(q, n, "x");
          const auto b = as_double(x);
          trsm(side, trans, lower, x);
          for (Index i = 0; i < n; ++i)
            for (Index j = i + 1; j < n; ++j) lower(i, j) = T{0};
          const auto l = op(trans, as_double(lower));
          const auto back = side == Side::left ? product(l, as_double(x)) : product(as_double(x), l);
          const double bound =
              double(n + 2) * std::numeric_limits<T>::epsilon() * norm(l) * norm(as_double(x));
          EXPECT_LE(distance(back, b), 2 * bound) << n << " " << q;
        }
}

TEST(Multiply, MatchesTripleLoopAndIgnoresThreads) {
  for (const Index m : {1, 255, 256, 300})
    for (const Index n : {1, 40, 513}) {
      const auto a = random_matrix(70, m, "a"), b = random_matrix(n, 70, "b");
      Matrix<double> first(m, n);
      multiply(Trans::yes, Trans::yes, 1.0, a, b, 0.0, first, 1);
      expect_product(first, transposed(a), transposed(b), kEps);
      for (const int threads : kThreadCounts) {
        Matrix<double> c(m, n);
        multiply(Trans::yes, Trans::yes, 1.0, a, b, 0.0, c, threads);
        EXPECT_TRUE(same_bits(first, c)) << m << " " << n << " threads " << threads;
      }
    }
}

// Few and many tiles, few and many rows: one part and several.
TEST(MultiplyTall, MatchesTripleLoopAndIgnoresThreads) {
  for (const Index rows : {0, 1, 300, 5000})
    for (const Index m : {1, 40, 300}) {
      const auto a = random_matrix<float>(rows, m, "a"), b = random_matrix<float>(rows, 520, "b"),
                 other = random_matrix<float>(rows, 3, "c");
      Matrix<float> first(m, 520), second(3, m);
      multiply_tall({{a, b, first}, {other, a, second}}, 1);
      const double eps = std::numeric_limits<float>::epsilon();
      expect_product(as_double(first), transposed(as_double(a)), as_double(b), eps);
      expect_product(as_double(second), transposed(as_double(other)), as_double(a), eps);
      for (const int threads : kThreadCounts) {
        Matrix<float> c(m, 520), d(3, m);
        multiply_tall({{a, b, c}, {other, a, d}}, threads);
        EXPECT_TRUE(same_bits(first, c)) << rows << " " << m << " threads " << threads;
        EXPECT_TRUE(same_bits(second, d)) << rows << " " << m << " threads " << threads;
      }
    }
  Matrix<float> a(3, 4), b(5, 2), c(4, 2);
  EXPECT_THROW(multiply_tall({{a, b, c}}, 1), Bug);
}

TEST(MultiplySymmetric, ReadsOneTriangleAndIgnoresThreads) {
  for (const Index n : {1, 63, 64, 65, 257, 300, 700})
    for (const Index q : {1, 3, 32}) {
      const auto full = random_symmetric(n, "a");
      auto lower = copy_of(full);
      poison_upper(lower);
      const auto upper = transposed(lower);
      const auto x = random_matrix(n, q, "x");
      for (const Triangle stored : {Triangle::lower, Triangle::upper}) {
        Matrix<double> first;
        for (const int threads : kThreadCounts) {
          Matrix<double> y(n, q);
          multiply_symmetric(stored, stored == Triangle::lower ? lower : upper, x, y, threads);
          if (threads == 1) {
            expect_product(y, full, x, kEps);
            first = std::move(y);
          } else {
            EXPECT_TRUE(same_bits(first, y)) << n << " " << q << " threads " << threads;
          }
        }
      }
    }
}

}  // namespace
}  // namespace headlens

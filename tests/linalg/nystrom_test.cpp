// The Nystrom preconditioner: what it does to condition numbers and to iterations, and its failures.
#include "linalg/nystrom.hpp"

#include <gtest/gtest.h>

#include "linalg/cg.hpp"
#include "linalg/cholesky.hpp"
#include "linalg/eigen.hpp"
#include "linalg/multiply.hpp"
#include "matrices.hpp"

namespace headlens {
namespace {

using namespace reference;

BlockOperator dense(const Matrix<double>& a, double shift, int threads = 1) {
  return [&a, shift, threads](MatrixView<const double> in, MatrixView<double> out) {
    copy_rows(in, out);
    multiply(Trans::no, Trans::no, 1.0, a, in, shift, out, threads);
  };
}

// Eigenvalues 2^-k: the largest is 1.
Matrix<double> halving(Index n) {
  std::vector<double> values;
  for (Index k = 0; k < n; ++k) values.push_back(std::pow(2.0, -double(k)));
  return with_spectrum(values, random_orthogonal(n, "v"));
}

// cond(P^-1 (A + mu I)), whose eigenvalues are those of L^T P^-1 L with L L^T = A + mu I.
double preconditioned_condition(const NystromPreconditioner& p, const Matrix<double>& a, double mu) {
  const Index n = a.rows();
  auto lower = copy_of(a);
  for (Index i = 0; i < n; ++i) lower(i, i) += mu;
  EXPECT_TRUE(cholesky(lower, 1).ok());
  for (Index i = 0; i < n; ++i)
    for (Index j = i + 1; j < n; ++j) lower(i, j) = 0;
  Matrix<double> solved(n, n);
  p.apply(mu, lower, solved, 1);
  const SymmetricEigen eigen = symmetric_eigen(product(transposed(lower), solved));
  EXPECT_TRUE(eigen.ok());
  return eigen.values.back() / eigen.values.front();
}

TEST(Nystrom, ConditionFallsBelowTheTheorem) {
  const Index n = 200;
  const auto a = halving(n);
  for (const double mu : {std::pow(2.0, -10), std::pow(2.0, -20)}) {
    double effective = 0;
    for (Index k = 0; k < n; ++k) effective += 1 / (1 + mu * std::pow(2.0, double(k)));
    // Frangella, Tropp, Udell, theorem 5.1: with this rank the expected condition number is below 28.
    const auto rank = static_cast<Index>(2 * std::ceil(1.5 * effective) + 1);
    for (const std::uint64_t seed : {1, 2, 3}) {
      const NystromResult result = build_nystrom(dense(a, 0), n, rank, seed, 1);
      ASSERT_TRUE(result.ok());
      EXPECT_LT(preconditioned_condition(result.preconditioner, a, mu), 28) << "plain: " << 1 / mu;
    }
  }
}

TEST(Nystrom, FewerIterations) {
  const Index n = 200;
  const double mu = std::pow(2.0, -24);
  const auto a = halving(n), b = random_matrix(n, 2, "b");
  const NystromResult result = build_nystrom(dense(a, 0), n, 60, 1, 1);
  ASSERT_TRUE(result.ok());
  const BlockOperator preconditioner = [&](MatrixView<const double> in, MatrixView<double> out) {
    result.preconditioner.apply(mu, in, out, 1);
  };
  const CgOptions options{.tolerance = 1e-8, .max_iterations = 2000};
  auto x = Matrix<double>::zeros(n, 2), y = Matrix<double>::zeros(n, 2);
  const CgResult plain = conjugate_gradients(dense(a, mu), {}, b, x, options);
  const CgResult preconditioned = conjugate_gradients(dense(a, mu), preconditioner, b, y, options);
  ASSERT_TRUE(preconditioned.ok());
  EXPECT_LT(preconditioned.iterations, 10);
  EXPECT_GT(plain.iterations, 5 * preconditioned.iterations);
}

TEST(Nystrom, VectorsAreOrthonormalAndValuesRight) {
  const auto a = halving(150);
  const NystromResult result = build_nystrom(dense(a, 0), 150, 80, 7, 1);
  ASSERT_TRUE(result.ok());
  const NystromPreconditioner& p = result.preconditioner;
  EXPECT_GT(p.rank(), 30);
  EXPECT_LE(p.rank(), 80);
  EXPECT_LE(distance(product(transposed(p.vectors()), p.vectors()), identity(p.rank())), 4 * 150 * kEps);
  // 80 columns catch the 50 eigenvalues above rounding; what is left is the shift, sqrt(n) eps |Y|.
  const double rounding = 100 * std::sqrt(150.0) * kEps;
  for (Index k = 0; k < 30; ++k)
    EXPECT_NEAR(p.values()[std::size_t(k)], std::pow(2.0, -double(k)), rounding) << k;
}

TEST(Nystrom, LowRankIsFoundExactly) {
  const auto x = random_matrix(120, 5, "x");
  const auto a = product(x, transposed(x));
  const NystromResult result = build_nystrom(dense(a, 0), 120, 20, 1, 1);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result.preconditioner.rank(), 5);
  // P is A + mu I up to scale, so what is left of the condition number is rounding: n eps |A| against mu.
  const double mu = 1e-6 * norm(a);
  EXPECT_LE(preconditioned_condition(result.preconditioner, a, mu), 1 + 100 * 120 * kEps * norm(a) / mu);
  // A zero shift leaves P^-1 definite.
  const auto in = random_matrix(120, 1, "in");
  Matrix<double> out(120, 1);
  result.preconditioner.apply(0.0, in, out, 1);
  EXPECT_GT(product(transposed(in), out)(0, 0), 0);
}

TEST(Nystrom, RankAboveSizeAndEmpty) {
  const auto a = halving(10);
  const NystromResult result = build_nystrom(dense(a, 0), 10, 50, 1, 1);
  ASSERT_TRUE(result.ok());
  EXPECT_LE(preconditioned_condition(result.preconditioner, a, 1e-2), 1 + 1e-6);
  EXPECT_TRUE(build_nystrom(dense(a, 0), 10, 0, 1, 1).ok());
  EXPECT_TRUE(build_nystrom(dense(a, 0), 0, 5, 1, 1).ok());
}

TEST(Nystrom, ZeroGivesTheIdentity) {
  const auto zero = Matrix<double>::zeros(30, 30);
  const NystromResult result = build_nystrom(dense(zero, 0), 30, 5, 1, 1);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result.preconditioner.rank(), 0);
  const auto in = random_matrix(30, 2, "in");
  Matrix<double> out(30, 2);
  result.preconditioner.apply(1.0, in, out, 1);
  EXPECT_TRUE(same_bits(in, out));
}

TEST(Nystrom, IndefiniteAndNanAreStatuses) {
  auto a = identity(30);
  a(3, 3) = -5;
  EXPECT_EQ(build_nystrom(dense(a, 0), 30, 30, 1, 1).status, NystromStatus::not_positive_semidefinite);
  a(3, 3) = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(build_nystrom(dense(a, 0), 30, 5, 1, 1).status, NystromStatus::not_finite);
}

TEST(Nystrom, SeedDecidesAndThreadsDoNot) {
  const auto a = halving(300), b = random_matrix(300, 2, "b");
  const NystromResult first = build_nystrom(dense(a, 0, 1), 300, 50, 9, 1);
  Matrix<double> out(300, 2);
  first.preconditioner.apply(1e-6, b, out, 1);
  for (const int threads : kThreadCounts) {
    const NystromResult result = build_nystrom(dense(a, 0, threads), 300, 50, 9, threads);
    Matrix<double> again(300, 2);
    result.preconditioner.apply(1e-6, b, again, threads);
    EXPECT_TRUE(same_bits(out, again)) << threads;
  }
  EXPECT_NE(build_nystrom(dense(a, 0), 300, 50, 10, 1).preconditioner.values(),
            first.preconditioner.values());
}

}  // namespace
}  // namespace headlens

// Reduction to a band: A = Q B Q^T with Q orthogonal, for every size around the block edges.
#include "linalg/band.hpp"

#include <gtest/gtest.h>

#include "matrices.hpp"

namespace headlens {
namespace {

using namespace reference;

constexpr Index b = kBandWidth;
const Index kSizes[] = {0,         1,     2,         b - 1, b,   b + 1, 2 * b - 1, 2 * b,
                        2 * b + 1, 3 * b, 5 * b + 7, 255,   256, 257,   300,       700};

template <class T>
Matrix<double> dense_band(const BandReduction<T>& band) {
  const Index n = band.size();
  auto out = Matrix<double>::zeros(n, n);
  for (Index k = 0; k < band.block_count(); ++k) {
    const auto diagonal = band.diagonal(k);
    for (Index i = 0; i < diagonal.rows; ++i)
      for (Index j = 0; j <= i; ++j) out(k * b + i, k * b + j) = out(k * b + j, k * b + i) = diagonal(i, j);
    if (k == 0) continue;
    const auto coupling = band.coupling(k);
    for (Index i = 0; i < coupling.rows; ++i)
      for (Index j = 0; j < b; ++j) {
        out(k * b + i, (k - 1) * b + j) = out((k - 1) * b + j, k * b + i) = coupling(i, j);
      }
  }
  return out;
}

BandReduction<double> reduce_lower(const Matrix<double>& a, int threads) {
  auto lower = copy_of(a);
  poison_upper(lower);
  return BandReduction<double>::reduce(std::move(lower), threads);
}

// Householder transforms: |Q^T Q - I| and |A - Q B Q^T| / |A| are at most c n eps in the Frobenius norm; c
// = 10.
void expect_reduction(const Matrix<double>& a, const BandReduction<double>& band) {
  const Index n = a.rows();
  const auto q = band.basis(1);
  EXPECT_LE(distance(product(transposed(q), q), identity(n)), 10 * double(n) * kEps) << n;
  const auto back = product(product(q, dense_band(band)), transposed(q));
  EXPECT_LE(distance(back, a), 10 * double(n) * kEps * norm(a)) << n;
}

TEST(Band, ReproducesTheMatrix) {
  for (const Index n : kSizes) {
    const auto a = random_symmetric(n, "a");
    const BandReduction<double> band = reduce_lower(a, 2);
    EXPECT_EQ(band.size(), n);
    expect_reduction(a, band);
  }
}

// The same bound with the rounding of float.
TEST(Band, ReproducesTheMatrixInFloat) {
  for (const Index n : kSizes) {
    const auto a = random_symmetric(n, "a");
    Matrix<float> single(n, n);
    for (Index i = 0; i < n * n; ++i) single.data()[i] = static_cast<float>(a.data()[i]);
    const auto rounded = to_double(single);
    const auto band = BandReduction<float>::reduce(std::move(single), 2);
    auto rows = Matrix<float>::zeros(n, n);  // A Q, which is Q B
    for (Index i = 0; i < n * n; ++i) rows.data()[i] = static_cast<float>(rounded.data()[i]);
    band.to_band_basis(rows, 2);
    const auto q = to_double(band.basis(1));
    EXPECT_LE(distance(product(transposed(q), q), identity(n)), 10 * double(n) * kEpsFloat) << n;
    const auto want = product(q, dense_band(band));
    EXPECT_LE(distance(to_double(rows), want), 10 * double(n) * kEpsFloat * norm(a)) << n;
  }
}

// Panels that are zero, of low rank or already reduced have reflectors that do nothing.
TEST(Band, DegenerateMatrices) {
  const Index n = 200;
  const auto x = random_matrix(n, 3, "x");
  const Matrix<double> cases[] = {Matrix<double>::zeros(n, n), identity(n), product(x, transposed(x)),
                                  dense_band(reduce_lower(random_symmetric(n, "a"), 1))};
  for (const Matrix<double>& a : cases) expect_reduction(a, reduce_lower(a, 1));
}

TEST(Band, ScaleDoesNotMatter) {
  for (const double scale : {1e-150, 1e150}) {
    auto a = random_symmetric(200, "a");
    for (Index i = 0; i < 200 * 200; ++i) a.data()[i] *= scale;
    const auto q = reduce_lower(a, 1).basis(1);
    EXPECT_LE(distance(product(transposed(q), q), identity(200)), 10 * 200 * kEps);
  }
}

TEST(Band, RowsGoThereAndBack) {
  for (const Index n : kSizes) {
    const BandReduction<double> band = reduce_lower(random_symmetric(n, "a"), 1);
    const auto rows = random_matrix(300, n, "rows");
    auto moved = copy_of(rows);
    band.to_band_basis(moved, 2);
    EXPECT_LE(distance(moved, product(rows, band.basis(2))), 20 * double(n) * kEps * norm(rows)) << n;
    band.from_band_basis(moved, 2);
    EXPECT_LE(distance(moved, rows), 20 * double(n) * kEps * norm(rows)) << n;
  }
}

TEST(Band, IgnoresThreads) {
  for (const Index n : {2 * b + 1, Index{300}, Index{700}}) {
    const auto a = random_symmetric(n, "a"), rows = random_matrix(300, n, "rows");
    Matrix<double> band, basis, there, back;
    for (const int threads : kThreadCounts) {
      const BandReduction<double> reduction = reduce_lower(a, threads);
      auto moved = copy_of(rows), returned = copy_of(rows);
      reduction.to_band_basis(moved, threads);
      reduction.from_band_basis(returned, threads);
      if (threads == 1) {
        band = dense_band(reduction), basis = reduction.basis(1);
        there = std::move(moved), back = std::move(returned);
        continue;
      }
      EXPECT_TRUE(same_bits(band, dense_band(reduction))) << n << ", " << threads << " threads";
      EXPECT_TRUE(same_bits(basis, reduction.basis(threads))) << n << ", " << threads << " threads";
      EXPECT_TRUE(same_bits(there, moved)) << n << ", " << threads << " threads";
      EXPECT_TRUE(same_bits(back, returned)) << n << ", " << threads << " threads";
    }
  }
}

TEST(Band, ReportsProgressAndCanBeStopped) {
  std::vector<double> fractions;
  (void)BandReduction<double>::reduce(random_symmetric(300, "a"), 1,
                                      [&](double done) { fractions.push_back(done); });
  ASSERT_FALSE(fractions.empty());
  EXPECT_TRUE(std::is_sorted(fractions.begin(), fractions.end()));
  EXPECT_GT(fractions.front(), 0);
  EXPECT_LE(fractions.back(), 1);
  struct Stop {};
  const auto stop = [](double) { throw Stop(); };
  EXPECT_THROW((void)BandReduction<double>::reduce(random_symmetric(300, "a"), 1, stop), Stop);
}

}  // namespace
}  // namespace headlens

#include "recover/spectral.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/parallel.hpp"
#include "base/random.hpp"
#include "linalg/blas.hpp"
#include "linalg/eigen.hpp"
#include "linalg/gram.hpp"
#include "linalg/multiply.hpp"
#include "linalg/orthonormalise.hpp"
#include "linalg/regularised.hpp"
#include "linalg/tiles.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::recovery {
namespace {

constexpr Index kSpectralRows = 512;   // tokens in a block, about
constexpr int kPowerRounds = 6;        // of the power iteration
constexpr int kSpectralMixtures = 24;  // tried for one start
constexpr double kScales[] = {0.7, 1.5, 3};

// C of the header in place of D: rows a q + j of one example.
void combine_others(MatrixView<double> d, Index q) {
  for (Index row = 0; row < d.rows; ++row) {
    const Index own = row / q;
    double total = 0;
    for (Index c = 0; c < d.cols; ++c) total += c == own ? 0 : d(row, c);
    for (Index c = 0; c < d.cols; ++c) d(row, c) = c == own ? 0 : total - d(row, c);
  }
}

struct Moment {
  MatrixView<const double> x;  // (n k, d)
  MatrixView<const double> y;  // (n k, e), projected
  Index tokens;
  int threads;

  // left^T (C X) for U = right a: T a for (x, y), T^T a for (y, x). a is (right.cols, q d).
  Matrix<double> product(MatrixView<const double> left, MatrixView<const double> right,
                         const Matrix<double>& a) const {
    const Index k = tokens, d = x.cols, q = a.cols() / d;
    const Index examples = x.rows / k, step = std::max<Index>(1, kSpectralRows / k);
    std::vector<Matrix<double>> parts(static_cast<std::size_t>(tile_count(examples, step)));
    parallel_for(threads, tile_count(examples, step), [&](Index tile, int) {
      const Tile here = tile_at(examples, step, tile);
      const Index first = here.begin * k, rows = here.size * k;
      Matrix<double> u(rows, q * d), c(k * q, k), part(left.cols, q * d);
      gemm(Trans::no, Trans::no, 1.0, right.block(first, 0, rows, right.cols), a.view(), 0.0, u.view());
      for (Index example = 0; example < here.size; ++example) {
        const MatrixView<const double> tokens_here = x.block(first + example * k, 0, k, d);
        const MatrixView<double> own(u.data() + example * k * q * d, k * q, d);
        gemm(Trans::no, Trans::yes, 1.0, MatrixView<const double>(own), tokens_here, 0.0, c.view());
        combine_others(c, q);
        gemm(Trans::no, Trans::no, 1.0, std::as_const(c).view(), tokens_here, 0.0, own);
      }
      gemm(Trans::yes, Trans::no, 1.0 / static_cast<double>(x.rows), left.block(first, 0, rows, left.cols),
           std::as_const(u).view(), 0.0, part.view());
      parts[static_cast<std::size_t>(tile)] = std::move(part);
    });
    Matrix<double> out = Matrix<double>::zeros(left.cols, q * d);
    for (const Matrix<double>& part : parts) add(1.0, part, out);
    return out;
  }
};

// Between (rows, q d), column block j matrix j, and (rows d, q), column j matrix j.
Matrix<double> as_columns(const Matrix<double>& blocks, Index d) {
  const Index q = blocks.cols() / d;
  Matrix<double> out(blocks.rows() * d, q);
  for (Index p = 0; p < blocks.rows(); ++p)
    for (Index j = 0; j < q; ++j)
      for (Index r = 0; r < d; ++r) out(p * d + r, j) = blocks(p, j * d + r);
  return out;
}

Matrix<double> as_blocks(const Matrix<double>& columns, Index d) {
  const Index q = columns.cols(), rows = columns.rows() / d;
  Matrix<double> out(rows, q * d);
  for (Index p = 0; p < rows; ++p)
    for (Index j = 0; j < q; ++j)
      for (Index r = 0; r < d; ++r) out(p, j * d + r) = columns(p * d + r, j);
  return out;
}

}  // namespace

Matrix<double> without_linear_part(const Split& split, int threads) {
  const Index rows = split.train_x.rows, d = split.train_x.cols, e = split.train_y.cols, k = split.tokens;
  Matrix<double> z(rows, 2 * d), out(rows, e);
  for (Index row = 0; row < rows; ++row)
    for (Index j = 0; j < d; ++j) {
      double others = 0;
      for (Index b = row / k * k; b < row / k * k + k; ++b) others += b == row ? 0 : split.train_x(b, j);
      z(row, j) = split.train_x(row, j);
      z(row, d + j) = others;
    }
  Matrix<double> gram = Matrix<double>::zeros(2 * d, 2 * d), rhs(2 * d, e), solution(2 * d, e);
  add_inner(std::as_const(z).view(), gram.view(), threads);
  double trace = 0;
  for (Index j = 0; j < 2 * d; ++j) trace += gram(j, j) / static_cast<double>(2 * d);
  multiply(Trans::yes, Trans::no, 1.0, std::as_const(z).view(), split.train_y, 0.0, rhs.view(), threads);
  for (Index row = 0; row < rows; ++row) std::copy_n(split.train_y.row(row), e, out.view().row(row));
  // The shift is for inputs that repeat a coordinate; elsewhere it changes nothing that matters for a start.
  if (solve_regularised(gram, 1e-10 * trace, std::as_const(rhs).view(), solution, threads).ok())
    multiply(Trans::no, Trans::no, -1.0, std::as_const(z).view(), std::as_const(solution).view(), 1.0,
             out.view(), threads);
  return out;
}

Index HeadSpan::count_heads() const {
  Index best = 1;
  double widest = 0;
  for (std::size_t j = 1; j + 1 < values.size(); ++j) {
    const double gap = values[j - 1] / std::max(values[j], 1e-300);
    if (gap > widest) widest = gap, best = static_cast<Index>(j);
  }
  return best;
}

HeadSpan head_span(const Split& split, Index count, std::uint64_t seed, Effort& effort) {
  const Index d = split.train_x.cols, e = split.train_y.cols;
  const Index q = std::min({count, d * d, d * e});
  const Matrix<double> y = without_linear_part(split, effort.threads());
  const Moment moment{split.train_x, y.view(), split.tokens, effort.threads()};
  Matrix<double> right(e, q * d);
  Stream stream(seed, "spectral");
  for (Index i = 0; i < e * q * d; ++i) right.data()[i] = stream.normal();
  HeadSpan span;
  for (int round = 0; round < kPowerRounds && !effort.expired(); ++round) {
    Matrix<double> columns = as_columns(moment.product(moment.x, moment.y, right), d);
    if (!orthonormalise_columns(columns, effort.threads()).ok()) return {};  // T has fewer directions
    right = moment.product(moment.y, moment.x, as_blocks(columns, d));
    // T^T U = V S Q^T: the eigenvectors of its Gram matrix rotate U to singular vectors.
    const Matrix<double> image = as_columns(right, d);
    Matrix<double> gram = Matrix<double>::zeros(q, q), rotated(columns.rows(), q), turned(image.rows(), q);
    add_inner(image.view(), gram.view(), effort.threads());
    const SymmetricEigen eigen = symmetric_eigen(gram.view());
    if (!eigen.ok()) return {};
    Matrix<double> rotation(q, q);
    span.values.clear();
    for (Index j = 0; j < q; ++j) {  // ascending there, falling here
      span.values.push_back(std::sqrt(std::max(0.0, eigen.values[static_cast<std::size_t>(q - 1 - j)])));
      for (Index i = 0; i < q; ++i) rotation(i, j) = eigen.vectors(q - 1 - j, i);
    }
    multiply(Trans::no, Trans::no, 1.0, std::as_const(columns).view(), std::as_const(rotation).view(), 0.0,
             rotated.view(), effort.threads());
    multiply(Trans::no, Trans::no, 1.0, image.view(), std::as_const(rotation).view(), 0.0, turned.view(),
             effort.threads());
    span.theta = as_blocks(rotated, d);
    span.image = as_blocks(turned, d);
    effort.report("spectral start", round, 1, q);
  }
  return span;
}

Matrix<double> spectral_start(const Split& split, const HeadSpan& span, Index heads, std::uint64_t seed,
                              int start, Effort& effort) {
  const Index d = span.theta.rows(), directions = std::min<Index>(heads, span.theta.cols() / d);
  const std::unique_ptr<backend::LayerProblem> problem = pose(split, heads, effort);
  const std::unique_ptr<backend::LayerPoint> point = problem->make_point();
  Matrix<double> best = random_start(d, heads, seed, start);
  double lowest = -1;
  for (int trial = 0; trial < kSpectralMixtures && !effort.expired(); ++trial) {
    Stream stream(seed, "mixture", static_cast<std::uint64_t>(start * kSpectralMixtures + trial));
    const double scale = kScales[trial % std::size(kScales)];
    Matrix<double> theta = Matrix<double>::zeros(d, heads * d);
    for (Index i = 0; i < heads; ++i) {
      std::vector<double> mix(static_cast<std::size_t>(directions));
      double square = 0;
      for (double& a : mix) a = stream.normal(), square += a * a;
      for (Index j = 0; j < directions; ++j)
        for (Index p = 0; p < d; ++p)
          for (Index r = 0; r < d; ++r)
            theta(p, i * d + r) +=
                scale * mix[static_cast<std::size_t>(j)] / std::sqrt(square) * span.theta(p, j * d + r);
    }
    problem->evaluate(copy_of(theta), 1e-3, *point);
    if (!point->finite || (lowest >= 0 && point->cost >= lowest)) continue;
    lowest = point->cost;
    best = std::move(theta);
  }
  return best;
}

}  // namespace headlens::recovery

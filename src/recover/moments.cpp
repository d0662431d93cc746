#include "recover/moments.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/parallel.hpp"
#include "base/random.hpp"
#include "linalg/blas.hpp"
#include "linalg/eigen.hpp"
#include "linalg/tiles.hpp"
#include "linalg/vector_space.hpp"
#include "recover/certificate/verdict.hpp"

namespace headlens::recovery {
namespace {

constexpr Index kBlockRows = 512;            // tokens in a block, about
constexpr int kMixtures = 16;                // pairs of slices tried
constexpr int kSweeps = 2;                   // over the sizes of the heads
constexpr int kSmallest = -4, kLargest = 8;  // sizes tried: 2^(-4/2) .. 2^(8/2), of either sign

// What one row says: with D_jc = x_a^T U_j x_c and f_rb = x_b^T V_r y_a, both zero at a, the sum over
// distinct b, c, c' by inclusion and exclusion.
void add_row(const double* d, const double* f, Index m, Index k, MatrixView<double> g) {
  const auto dot = [k](const double* u, const double* v) {
    double sum = 0;
    for (Index c = 0; c < k; ++c) sum += u[c] * v[c];
    return sum;
  };
  const auto total = [k](const double* u) {
    double sum = 0;
    for (Index c = 0; c < k; ++c) sum += u[c];
    return sum;
  };
  for (Index r = 0; r < m; ++r) {
    const double* fr = f + r * k;
    for (Index j = 0; j < m; ++j)
      for (Index l = 0; l <= j; ++l) {
        const double *dj = d + j * k, *dl = d + l * k;
        double triple = 0;
        for (Index c = 0; c < k; ++c) triple += dj[c] * dl[c] * fr[c];
        g(r * m + j, l) += (total(dj) * total(dl) - dot(dj, dl)) * total(fr) - dot(dj, fr) * total(dl) -
                           dot(dl, fr) * total(dj) + 2 * triple;
      }
  }
}

// sum_r weights_r G_r
Matrix<double> mixture(const Matrix<double>& third, const std::vector<double>& weights) {
  const Index m = third.cols();
  Matrix<double> out = Matrix<double>::zeros(m, m);
  for (Index row = 0; row < m * m; ++row)
    for (Index l = 0; l < m; ++l)
      out(row % m, l) += weights[static_cast<std::size_t>(row / m)] * third(row, l);
  return out;
}

std::optional<Matrix<double>> inverse(const Matrix<double>& symmetric) {
  const SymmetricEigen eigen = symmetric_eigen(symmetric.view());
  if (!eigen.ok()) return std::nullopt;
  const Index m = symmetric.rows();
  Matrix<double> out = Matrix<double>::zeros(m, m);
  for (Index q = 0; q < m; ++q) {
    const double value = eigen.values[static_cast<std::size_t>(q)];
    if (value == 0) return std::nullopt;
    for (Index i = 0; i < m; ++i)
      for (Index j = 0; j < m; ++j) out(i, j) += eigen.vectors(q, i) * eigen.vectors(q, j) / value;
  }
  return out;
}

// The smallest distance of two eigenvalues, as a share of the largest: how well their vectors are told apart.
double separation(const std::vector<double>& values) {
  double largest = 0, closest = -1;
  for (std::size_t i = 0; i < values.size(); ++i) {
    largest = std::max(largest, std::abs(values[i]));
    for (std::size_t j = 0; j < i; ++j) {
      const double gap = std::abs(values[i] - values[j]);
      if (closest < 0 || gap < closest) closest = gap;
    }
  }
  return closest < 0 ? 1 : closest / std::max(largest, 1e-300);
}

// (d, m d): sum_j C_ji U_j for every head i.
Matrix<double> directions(const HeadSpan& span, const Matrix<double>& factors) {
  const Index d = span.theta.rows(), m = factors.rows();
  Matrix<double> out = Matrix<double>::zeros(d, m * d);
  for (Index i = 0; i < m; ++i)
    for (Index j = 0; j < m; ++j)
      for (Index p = 0; p < d; ++p)
        for (Index q = 0; q < d; ++q) out(p, i * d + q) += factors(j, i) * span.theta(p, j * d + q);
  return out;
}

Matrix<double> scaled(const Matrix<double>& heads, const std::vector<double>& sizes) {
  const Index d = heads.rows();
  Matrix<double> out = copy_of(heads);
  for (Index p = 0; p < d; ++p)
    for (Index c = 0; c < heads.cols(); ++c) out(p, c) *= sizes[static_cast<std::size_t>(c / d)];
  return out;
}

// The size and sign of every head, one head after the other, by the error that the best W leaves.
std::vector<double> search_sizes(const Split& split, const Matrix<double>& heads, Effort& effort) {
  const Index m = heads.cols() / heads.rows();
  const Split enough = first_examples(split, m);
  const std::unique_ptr<backend::LayerProblem> problem = pose(enough, m, effort);
  const std::unique_ptr<backend::LayerPoint> point = problem->make_point();
  std::vector<double> sizes(static_cast<std::size_t>(m), 1.0);
  double lowest = -1;
  for (int sweep = 0; sweep < kSweeps && !effort.must_stop(); ++sweep)
    for (double& size : sizes) {
      const double before = size;
      double best = before;
      for (int half = kSmallest; half <= kLargest && !effort.must_stop(); ++half)
        for (const double sign : {1.0, -1.0}) {
          size = sign * std::exp2(0.5 * half);
          problem->evaluate(scaled(heads, sizes), 0, *point);
          if (!point->finite || (lowest >= 0 && point->cost >= lowest)) continue;
          lowest = point->cost;
          best = size;
        }
      size = best;
      effort.report("sizes of the heads", ++effort.steps, lowest / problem->y_squares(), m);
    }
  return sizes;
}

}  // namespace

Matrix<double> third_moment(const Split& split, const HeadSpan& span, Index heads, Effort& effort) {
  const Index k = split.tokens, d = split.train_x.cols, e = split.train_y.cols, m = heads;
  const Matrix<double> y = without_linear_part(split, effort.threads());
  const Index examples = split.train_x.rows / k, step = std::max<Index>(1, kBlockRows / k);
  std::vector<Matrix<double>> parts(static_cast<std::size_t>(tile_count(examples, step)));
  const MatrixView<const double> u = span.theta.view().block(0, 0, d, m * d),
                                 v = span.image.view().block(0, 0, e, m * d);
  parallel_for(effort.threads(), tile_count(examples, step), [&](Index tile, int) {
    const Tile here = tile_at(examples, step, tile);
    const Index first = here.begin * k, rows = here.size * k;
    Matrix<double> xu(rows, m * d), yv(rows, m * d), logits(k * m, k), values(k * m, k);
    Matrix<double> part = Matrix<double>::zeros(m * m, m);
    gemm(Trans::no, Trans::no, 1.0, split.train_x.block(first, 0, rows, d), u, 0.0, xu.view());
    gemm(Trans::no, Trans::no, 1.0, y.view().block(first, 0, rows, e), v, 0.0, yv.view());
    for (Index example = 0; example < here.size; ++example) {
      const MatrixView<const double> tokens = split.train_x.block(first + example * k, 0, k, d);
      const MatrixView<const double> own_x(xu.data() + example * k * m * d, k * m, d),
          own_y(yv.data() + example * k * m * d, k * m, d);
      gemm(Trans::no, Trans::yes, 1.0, own_x, tokens, 0.0, logits.view());
      gemm(Trans::no, Trans::yes, 1.0, own_y, tokens, 0.0, values.view());
      for (Index a = 0; a < k; ++a) {
        for (Index j = 0; j < m; ++j) logits(a * m + j, a) = values(a * m + j, a) = 0;
        add_row(logits.view().row(a * m), values.view().row(a * m), m, k, part.view());
      }
    }
    parts[static_cast<std::size_t>(tile)] = std::move(part);
  });
  Matrix<double> out = Matrix<double>::zeros(m * m, m);
  for (const Matrix<double>& part : parts) add(1.0 / static_cast<double>(split.train_x.rows), part, out);
  for (Index r = 0; r < m; ++r)  // the slices are symmetric
    for (Index j = 0; j < m; ++j)
      for (Index l = 0; l < j; ++l) out(r * m + l, j) = out(r * m + j, l);
  return out;
}

Matrix<double> common_factors(const Matrix<double>& third, std::uint64_t seed) {
  const Index m = third.cols();
  Matrix<double> best = Matrix<double>::zeros(m, m);
  for (Index i = 0; i < m; ++i) best(i, i) = 1;
  double widest = 0;
  for (int trial = 0; trial < kMixtures && m > 1; ++trial) {
    Stream stream(seed, "slices", static_cast<std::uint64_t>(trial));
    std::vector<double> v(static_cast<std::size_t>(m)), w(static_cast<std::size_t>(m));
    for (double& value : v) value = stream.normal();
    for (double& value : w) value = stream.normal();
    const std::optional<Matrix<double>> back = inverse(mixture(third, w));
    if (!back) continue;
    const Matrix<double> slice = mixture(third, v);
    Matrix<double> ratio(m, m);
    gemm(Trans::no, Trans::no, 1.0, slice.view(), std::as_const(*back).view(), 0.0, ratio.view());
    const GeneralEigen eigen = general_eigen(std::as_const(ratio).view());
    if (!eigen.ok() || separation(eigen.values) <= widest) continue;
    widest = separation(eigen.values);
    for (Index i = 0; i < m; ++i)
      for (Index j = 0; j < m; ++j) best(j, i) = eigen.vectors(i, j);
  }
  return best;
}

Candidate find_by_moments(const Split& split, const HeadSpan& span, const RecoverOptions& options,
                          Effort& effort) {
  const Index d = split.train_x.cols, found = static_cast<Index>(span.values.size());
  const Index m =
      found == 0 ? options.heads.value_or(1) : std::min(options.heads.value_or(span.count_heads()), found);
  Matrix<double> theta = Matrix<double>::zeros(d, m * d);  // where the moments vanish: plain means
  if (found > 0 && !effort.must_stop()) {
    const Matrix<double> third = third_moment(split, span, m, effort);
    const Matrix<double> heads = directions(span, common_factors(third, options.seed));
    theta = scaled(heads, search_sizes(split, heads, effort));
  }
  ++effort.starts;
  const std::unique_ptr<backend::LayerProblem> problem = pose(split, m, effort);
  const std::unique_ptr<backend::LayerPoint> point = problem->make_point();
  problem->evaluate(std::move(theta), 0, *point);
  Candidate out{std::move(point->parameters), std::move(point->w), 1, 1};
  if (!point->finite) std::fill_n(out.w.data(), out.w.rows() * out.w.cols(), 0.0);  // tokens of zeros, say
  if (!point->finite || problem->y_squares() == 0) return out;
  out.train_error = std::sqrt(point->squares / problem->y_squares());
  out.held_out_error = held_out_error(split, out.theta, out.w, effort.threads());
  return out;
}

}  // namespace headlens::recovery

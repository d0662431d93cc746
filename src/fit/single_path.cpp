#include "fit/single_path.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>

#include "base/random.hpp"
#include "linalg/cholesky.hpp"
#include "linalg/multiply.hpp"
#include "linalg/rounded_gram.hpp"
#include "linalg/shifted_band.hpp"

namespace headlens {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr float kEpsilon = std::numeric_limits<float>::epsilon();
// Shifts below this share of |B| are not tried. In the dual the rounding of the band, c eps |B|, must move
// its inverse by some percent at most. In the primal residuals are measured, so that a wrong V is seen.
constexpr float resolved_share(bool dual) { return (dual ? 32 : 4) * kEpsilon; }

MatrixView<const float> in_single(MatrixView<const float> a, Matrix<float>&) { return a; }
MatrixView<const float> in_single(MatrixView<const double> a, Matrix<float>& buffer) {
  if (buffer.rows() * buffer.cols() < a.rows * a.cols) buffer = Matrix<float>(a.rows, a.cols);
  const MatrixView<float> out(buffer.data(), a.rows, a.cols);
  for (Index i = 0; i < a.rows; ++i)
    for (Index j = 0; j < a.cols; ++j) out(i, j) = static_cast<float>(a(i, j));
  return out;
}

// Of a, the rows of `unknowns`, as columns. Columns of Phi that are padding, zeros, are no unknowns: they
// need not be factorised.
Matrix<float> pick_transposed(MatrixView<const double> a, const std::vector<Index>& unknowns) {
  Matrix<float> out(a.cols, std::ssize(unknowns));
  for (Index i = 0; i < out.cols(); ++i)
    for (Index j = 0; j < a.cols; ++j)
      out(j, i) = static_cast<float>(a(unknowns[static_cast<std::size_t>(i)], j));
  return out;
}

// The way back: zeros elsewhere.
template <class T>
void put_transposed(MatrixView<const float> a, const std::vector<Index>& unknowns, MatrixView<T> out) {
  for (Index i = 0; i < out.rows; ++i) std::fill_n(out.row(i), out.cols, T(0));
  for (Index i = 0; i < a.cols; ++i)
    for (Index j = 0; j < a.rows; ++j)
      out(unknowns[static_cast<std::size_t>(i)], j) = static_cast<T>(a(j, i));
}

std::vector<Index> all_below(Index count) {
  std::vector<Index> out(static_cast<std::size_t>(count));
  std::iota(out.begin(), out.end(), Index{0});
  return out;
}

// What the path starts from, on either side. Row k of `left_out` belongs to example examples[k]: its unit
// vector in the dual, its features in the primal.
struct System {
  std::vector<Index> unknowns;  // all examples, or the columns of Phi but for padding
  Matrix<float> gram;
  Matrix<float> rhs;  // (q, size): Y^T or Y^T Phi
  Matrix<float> left_out;
};

template <class T>
System dual_system(DesignMatrix<T>& design, MatrixView<const double> y, const std::vector<Index>& examples) {
  const Index n = design.rows();
  System out{all_below(n), Matrix<float>::zeros(n, n), pick_transposed(y, all_below(n)),
             Matrix<float>::zeros(std::ssize(examples), n)};
  Matrix<float> buffer;
  design.for_column_chunks("gram", [&](Index, MatrixView<const T> chunk) {
    add_rounded_outer(in_single(chunk, buffer), out.gram, design.threads());
  });
  for (std::size_t k = 0; k < examples.size(); ++k) out.left_out(static_cast<Index>(k), examples[k]) = 1;
  return out;
}

template <class T>
System primal_system_in_single(DesignMatrix<T>& design, MatrixView<const double> y,
                               const std::vector<Index>& examples) {
  const std::vector<Index> columns = design.used_columns();
  const Index p = std::ssize(columns);
  System out{columns, Matrix<float>::zeros(p, p), {}, Matrix<float>(std::ssize(examples), p)};
  Matrix<double> rhs = Matrix<double>::zeros(design.columns(), y.cols);
  Matrix<float> buffer;
  std::size_t next = 0;
  design.for_row_blocks("gram", [&](Index first, MatrixView<const T> block) {
    add_transposed_product<T>(block, y.block(first, 0, block.rows, y.cols), rhs, design.threads());
    for (Index i = 0; i < block.rows; i += kRowTile) {
      const Index rows = std::min(kRowTile, block.rows - i);
      const MatrixView<const float> tile = in_single(block.block(i, 0, rows, block.cols), buffer);
      add_rounded_inner(tile, columns, out.gram, design.threads());
      for (; next < examples.size() && examples[next] < first + i + rows; ++next)
        for (Index j = 0; j < p; ++j)
          out.left_out(static_cast<Index>(next), j) =
              tile(examples[next] - first - i, columns[static_cast<std::size_t>(j)]);
    }
  });
  out.rhs = pick_transposed(rhs, columns);
  return out;
}

double mean_square(const Matrix<float>& gram, Index n) {
  double sum = 0;
  for (Index i = 0; i < gram.rows(); ++i) sum += static_cast<double>(gram(i, i));
  return sum / static_cast<double>(n);
}

// The largest sum of absolute values in a row of B, at least |B|.
float row_sum_norm(const BandReduction<float>& band) {
  std::vector<float> sums(static_cast<std::size_t>(band.size()), 0.0F);
  const auto add = [&](Index i, Index j, float value) {
    sums[static_cast<std::size_t>(i)] += std::abs(value);
    if (i != j) sums[static_cast<std::size_t>(j)] += std::abs(value);
  };
  for (Index k = 0; k < band.block_count(); ++k) {
    const auto diagonal = band.diagonal(k);
    for (Index i = 0; i < diagonal.rows; ++i)
      for (Index j = 0; j <= i; ++j) add(k * kBandWidth + i, k * kBandWidth + j, diagonal(i, j));
    if (k == 0) continue;
    const auto coupling = band.coupling(k);
    for (Index i = 0; i < coupling.rows; ++i)
      for (Index j = 0; j < coupling.cols; ++j)
        add(k * kBandWidth + i, (k - 1) * kBandWidth + j, coupling(i, j));
  }
  return *std::max_element(sums.begin(), sums.end());
}

// Everything about one penalty that its error needs, in the notation of the header.
struct Trial {
  double ridge = 0;
  std::vector<double> left;  // d_i of the examples left out
};

// d_i = [A^-1]_ii - constant or 1 - constant - phi_i^T A^-1 phi_i of the rows z of System::left_out.
std::vector<double> left_over(const ShiftedBand<float>& factor, MatrixView<const float> z, bool dual,
                              double constant, int threads) {
  std::vector<float> forms(static_cast<std::size_t>(z.rows));
  factor.quadratic_forms(z, forms.data(), threads);
  std::vector<double> out;
  for (const float form : forms)
    out.push_back(dual ? static_cast<double>(form) - constant : 1 - constant - static_cast<double>(form));
  return out;
}

// The mean squared leave-one-out error of each trial. residuals: (n, trials q).
std::vector<RidgeTrial> errors(const std::vector<Trial>& trials, MatrixView<const float> residuals,
                               const std::vector<Index>& examples) {
  const Index q = residuals.cols / static_cast<Index>(trials.size());
  std::vector<RidgeTrial> out;
  for (std::size_t k = 0; k < trials.size(); ++k) {
    const auto square = [&](Index i) {
      double sum = 0;
      for (Index c = 0; c < q; ++c) sum += std::pow(residuals(i, static_cast<Index>(k) * q + c), 2);
      return sum;
    };
    double all = 0, some = 0, some_left_out = 0;
    for (Index i = 0; i < residuals.rows; ++i) all += square(i);
    for (std::size_t e = 0; e < examples.size(); ++e) {
      const double left = trials[k].left[e];
      some += square(examples[e]);
      some_left_out += left > 0 ? square(examples[e]) / (left * left) : kInfinity;
    }
    const double mean = all / static_cast<double>(residuals.rows * q);
    out.push_back({trials[k].ridge, some > 0 ? mean * some_left_out / some : mean});
  }
  return out;
}

// alpha^T of every trial becomes a column: alpha is the residual over n ridge.
Matrix<float> dual_residuals(const BandReduction<float>& band, Matrix<float> solutions, int threads) {
  band.from_band_basis(solutions, threads);
  Matrix<float> out(solutions.cols(), solutions.rows());
  put_transposed<float>(solutions, all_below(out.rows()), out);
  return out;
}

// Y - Phi V of every trial.
template <class T>
Matrix<float> primal_residuals(DesignMatrix<T>& design, const SinglePath& path, Matrix<float> solutions,
                               MatrixView<const double> y) {
  path.band.from_band_basis(solutions, design.threads());
  Matrix<float> values(design.columns(), solutions.rows()), out(design.rows(), solutions.rows()), buffer;
  put_transposed<float>(solutions, path.unknowns, values);
  design.for_row_blocks("ridge path", [&](Index first, MatrixView<const T> block) {
    const MatrixView<float> rows = out.view().block(first, 0, block.rows, out.cols());
    for (Index i = 0; i < rows.rows; ++i)
      for (Index k = 0; k < rows.cols; ++k) rows(i, k) = static_cast<float>(y(first + i, k % y.cols));
    multiply(Trans::no, Trans::no, -1.0F, in_single(block, buffer), values, 1.0F, rows, design.threads());
  });
  return out;
}

// The penalties that single precision resolves, from the largest on; each leaves its solution in q rows of
// `solutions`.
template <class ConstantShare>
std::vector<Trial> try_ridges(const BandReduction<float>& band, const System& system,
                              const std::vector<double>& ridges, Index n, double smallest, bool dual,
                              ConstantShare&& constant_share, Matrix<float>& solutions, int threads,
                              const Execution& execution) {
  const Index q = system.rhs.rows();
  std::vector<Trial> trials;
  for (const double ridge : ridges) {
    execution.check_cancelled();
    execution.report("ridge path", static_cast<double>(trials.size()), static_cast<double>(ridges.size()));
    const double shift = ridge * static_cast<double>(n);
    const ShiftedBand<float> factor(band, static_cast<float>(shift));
    if (shift < smallest || !factor.result().ok()) break;
    const MatrixView<float> solution =
        solutions.view().block(static_cast<Index>(trials.size()) * q, 0, q, solutions.cols());
    copy_rows(system.rhs, solution);
    factor.solve(solution, threads);
    trials.push_back({ridge, left_over(factor, system.left_out, dual, constant_share(shift), threads)});
  }
  return trials;
}

}  // namespace

std::vector<Index> draw_examples(Index count, Index most, std::uint64_t seed) {
  std::vector<Index> order(static_cast<std::size_t>(count));
  for (Index i = 0; i < count; ++i) order[static_cast<std::size_t>(i)] = i;
  if (count <= most) return order;
  Stream stream(seed, "left out");
  for (std::size_t i = 0; i < static_cast<std::size_t>(most); ++i)
    std::swap(order[i], order[i + stream.below(order.size() - i)]);
  order.resize(static_cast<std::size_t>(most));
  std::sort(order.begin(), order.end());
  return order;
}

BlockOperator SinglePath::inverse(double shift, int threads) const {
  const auto factor = std::make_shared<ShiftedBand<float>>(band, static_cast<float>(shift));
  return [this, factor, threads](MatrixView<const double> in, MatrixView<double> out) {
    Matrix<float> rows = pick_transposed(in, unknowns);
    band.to_band_basis(rows, threads);
    factor->solve(rows, threads);
    band.from_band_basis(rows, threads);
    put_transposed<double>(rows, unknowns, out);
  };
}

template <class T>
std::optional<SinglePath> single_path(DesignMatrix<T>& design, bool dual, MatrixView<const double> y,
                                      const FitOptions& options, const Execution& execution) {
  const Index n = design.rows();
  const int threads = design.threads();
  const std::vector<Index> examples = draw_examples(n, kLeftOut, options.features.seed);
  System system = dual ? dual_system(design, y, examples) : primal_system_in_single(design, y, examples);
  const double mean_diagonal = mean_square(system.gram, n);
  if (!(mean_diagonal > 1e-12 && mean_diagonal < 1e24)) return {};  // squares of float reach 1e-38 to 1e38
  if (dual && options.intercept)
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j <= i; ++j)
        system.gram(i, j) += static_cast<float>(mean_diagonal / static_cast<double>(n));

  SinglePath out;
  out.unknowns = std::move(system.unknowns);
  out.band = BandReduction<float>::reduce(std::move(system.gram), threads, [&](double done) {
    execution.check_cancelled();
    execution.report("factorise", done, 1);
  });
  out.band.to_band_basis(system.rhs, threads);
  out.band.to_band_basis(system.left_out, threads);
  const auto smallest = static_cast<double>(resolved_share(dual) * row_sum_norm(out.band));
  const std::vector<double> ridges = ridge_grid(mean_diagonal, n, options.features.precision);
  const Index q = y.cols;
  Matrix<float> solutions(static_cast<Index>(ridges.size()) * q, system.rhs.cols());
  const auto constant_share = [&](double shift) {
    return !options.intercept ? 0.0 : 1.0 / (static_cast<double>(n) * (dual ? mean_diagonal + shift : 1.0));
  };
  const std::vector<Trial> trials =
      try_ridges(out.band, system, ridges, n, smallest, dual, constant_share, solutions, threads, execution);
  if (trials.size() < 2) return {};
  Matrix<float> found(static_cast<Index>(trials.size()) * q, solutions.cols());
  copy_rows(solutions.view().block(0, 0, found.rows(), found.cols()), found);
  out.trials = errors(trials,
                      dual ? dual_residuals(out.band, std::move(found), threads)
                           : primal_residuals(design, out, std::move(found), y),
                      examples);
  const auto best = static_cast<std::size_t>(best_trial(out.trials));
  const bool at_the_edge = best + 1 == out.trials.size() && out.trials.size() < ridges.size();
  if (at_the_edge || !std::isfinite(out.trials[best].error)) return {};
  out.ridge = out.trials[best].ridge;
  return out;
}

template <class T>
BlockOperator single_inverse(DesignMatrix<T>& design, bool dual, double shift, MatrixView<const double> y) {
  const int threads = design.threads();
  System system = dual ? dual_system(design, y, {}) : primal_system_in_single(design, y, {});
  for (Index i = 0; i < system.gram.rows(); ++i) system.gram(i, i) += static_cast<float>(shift);
  const auto factor = std::make_shared<Matrix<float>>(std::move(system.gram));
  if (!cholesky(*factor, threads).ok()) return {};
  return [factor, unknowns = std::move(system.unknowns), threads](MatrixView<const double> in,
                                                                  MatrixView<double> out) {
    Matrix<float> rows = pick_transposed(in, unknowns);
    for (Index j = 0; j < rows.rows(); ++j)
      cholesky_solve(*factor, {rows.view().row(j), rows.cols(), 1}, threads);
    put_transposed<double>(rows, unknowns, out);
  };
}

template BlockOperator single_inverse(DesignMatrix<float>&, bool, double, MatrixView<const double>);
template BlockOperator single_inverse(DesignMatrix<double>&, bool, double, MatrixView<const double>);
template std::optional<SinglePath> single_path(DesignMatrix<float>&, bool, MatrixView<const double>,
                                               const FitOptions&, const Execution&);
template std::optional<SinglePath> single_path(DesignMatrix<double>&, bool, MatrixView<const double>,
                                               const FitOptions&, const Execution&);

}  // namespace headlens

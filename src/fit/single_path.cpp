#include "fit/single_path.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "base/random.hpp"
#include "linalg/gram.hpp"
#include "linalg/multiply.hpp"
#include "linalg/shifted_band.hpp"

namespace headlens {
namespace {

constexpr float kEpsilon = std::numeric_limits<float>::epsilon();
// A shift counts as resolved if rounding of the band, c eps |B|, moves its inverse by some percent at most.
constexpr float kResolved = 32 * kEpsilon;

MatrixView<const float> in_single(MatrixView<const float> a, Matrix<float>&) { return a; }
MatrixView<const float> in_single(MatrixView<const double> a, Matrix<float>& buffer) {
  if (buffer.rows() * buffer.cols() < a.rows * a.cols) buffer = Matrix<float>(a.rows, a.cols);
  const MatrixView<float> out(buffer.data(), a.rows, a.cols);
  for (Index i = 0; i < a.rows; ++i)
    for (Index j = 0; j < a.cols; ++j) out(i, j) = static_cast<float>(a(i, j));
  return out;
}

Matrix<float> transposed(MatrixView<const double> a) {
  Matrix<float> out(a.cols, a.rows);
  for (Index i = 0; i < a.rows; ++i)
    for (Index j = 0; j < a.cols; ++j) out(j, i) = static_cast<float>(a(i, j));
  return out;
}

// What the path starts from, on either side. Row k of `left_out` belongs to example examples[k]: its unit
// vector in the dual, its features in the primal.
struct System {
  Matrix<float> gram;
  Matrix<float> rhs;  // (q, size): Y^T or Y^T Phi
  Matrix<float> left_out;
};

template <class T>
System dual_system(DesignMatrix<T>& design, MatrixView<const double> y, const std::vector<Index>& examples) {
  const Index n = design.rows();
  System out{Matrix<float>::zeros(n, n), transposed(y),
             Matrix<float>::zeros(static_cast<Index>(examples.size()), n)};
  Matrix<float> buffer;
  design.for_column_chunks("gram", [&](Index, MatrixView<const T> chunk) {
    add_outer(in_single(chunk, buffer), out.gram, design.threads());
  });
  for (std::size_t k = 0; k < examples.size(); ++k) out.left_out(static_cast<Index>(k), examples[k]) = 1;
  return out;
}

template <class T>
System primal_system_in_single(DesignMatrix<T>& design, MatrixView<const double> y,
                               const std::vector<Index>& examples) {
  const Index p = design.columns();
  System out{Matrix<float>::zeros(p, p), {}, Matrix<float>(static_cast<Index>(examples.size()), p)};
  Matrix<double> rhs = Matrix<double>::zeros(p, y.cols);
  Matrix<float> buffer;
  std::size_t next = 0;
  design.for_row_blocks("gram", [&](Index first, MatrixView<const T> block) {
    add_transposed_product<T>(block, y.block(first, 0, block.rows, y.cols), rhs, design.threads());
    for (Index i = 0; i < block.rows; i += kRowTile) {
      const Index rows = std::min(kRowTile, block.rows - i);
      const MatrixView<const float> tile = in_single(block.block(i, 0, rows, p), buffer);
      add_inner(tile, out.gram, design.threads());
      for (; next < examples.size() && examples[next] < first + i + rows; ++next)
        std::copy_n(tile.row(examples[next] - first - i), p,
                    out.left_out.view().row(static_cast<Index>(next)));
    }
  });
  out.rhs = transposed(rhs);
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

// The mean squared leave-one-out error at one shift; formulas in ridge_path.hpp.
class LeaveOneOut {
 public:
  // `z`: the rows of System::left_out in the band basis.
  LeaveOneOut(bool dual, MatrixView<const float> z, MatrixView<const double> y,
              const std::vector<Index>& examples)
      : dual_(dual), z_(z), y_(y), examples_(examples) {}

  // solution: (q, size) in the band basis. constant: what the intercept takes off the denominator.
  double error(const ShiftedBand<float>& factor, MatrixView<const float> solution, double constant,
               int threads) const {
    std::vector<float> forms(examples_.size());
    factor.quadratic_forms(z_, forms.data(), threads);
    Matrix<float> values(z_.rows, solution.rows);  // alpha_i or f_i
    multiply(Trans::no, Trans::yes, 1.0F, z_, solution, 0.0F, values, threads);
    double squares = 0;
    for (Index k = 0; k < z_.rows; ++k) {
      const auto form = static_cast<double>(forms[static_cast<std::size_t>(k)]);
      const double below = dual_ ? form - constant : 1 - constant - form;
      for (Index c = 0; c < solution.rows; ++c) {
        const auto value = static_cast<double>(values(k, c));
        const double above = dual_ ? value : y_(examples_[static_cast<std::size_t>(k)], c) - value;
        squares += below > 0 ? std::pow(above / below, 2) : std::numeric_limits<double>::infinity();
      }
    }
    return squares / static_cast<double>(z_.rows * solution.rows);
  }

 private:
  bool dual_;
  MatrixView<const float> z_;
  MatrixView<const double> y_;
  const std::vector<Index>& examples_;
};

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
    Matrix<float> rows = transposed(in);
    band.to_band_basis(rows, threads);
    factor->solve(rows, threads);
    band.from_band_basis(rows, threads);
    for (Index i = 0; i < out.rows; ++i)
      for (Index c = 0; c < out.cols; ++c) out(i, c) = static_cast<double>(rows(c, i));
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
  out.band = BandReduction<float>::reduce(std::move(system.gram), threads, [&](double done) {
    execution.check_cancelled();
    execution.report("factorise", done, 1);
  });
  out.band.to_band_basis(system.rhs, threads);
  out.band.to_band_basis(system.left_out, threads);
  const LeaveOneOut leave_one_out(dual, system.left_out, y, examples);
  const auto smallest = static_cast<double>(kResolved * row_sum_norm(out.band));
  const std::vector<double> ridges = ridge_grid(mean_diagonal, n, options.features.precision);
  for (const double ridge : ridges) {
    execution.check_cancelled();
    execution.report("ridge path", static_cast<double>(out.trials.size()),
                     static_cast<double>(ridges.size()));
    const double shift = ridge * static_cast<double>(n);
    const ShiftedBand<float> factor(out.band, static_cast<float>(shift));
    if (shift < smallest || !factor.result().ok()) break;
    Matrix<float> solution(system.rhs.rows(), system.rhs.cols());
    copy_rows(system.rhs, solution);
    factor.solve(solution, threads);
    const double constant =
        !options.intercept ? 0.0 : 1.0 / (static_cast<double>(n) * (dual ? mean_diagonal + shift : 1.0));
    out.trials.push_back({ridge, leave_one_out.error(factor, solution, constant, threads)});
  }
  if (out.trials.size() < 2) return {};
  const auto best = static_cast<std::size_t>(best_trial(out.trials));
  const bool at_the_edge = best + 1 == out.trials.size() && out.trials.size() < ridges.size();
  if (at_the_edge || !std::isfinite(out.trials[best].error)) return {};
  out.ridge = out.trials[best].ridge;
  return out;
}

template std::optional<SinglePath> single_path(DesignMatrix<float>&, bool, MatrixView<const double>,
                                               const FitOptions&, const Execution&);
template std::optional<SinglePath> single_path(DesignMatrix<double>&, bool, MatrixView<const double>,
                                               const FitOptions&, const Execution&);

}  // namespace headlens

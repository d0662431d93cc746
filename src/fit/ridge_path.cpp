#include "fit/ridge_path.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "linalg/multiply.hpp"
#include "linalg/shifted_band.hpp"

namespace headlens {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Matrix<double> transposed(MatrixView<const double> a) {
  Matrix<double> out(a.cols, a.rows);
  for (Index i = 0; i < a.rows; ++i)
    for (Index j = 0; j < a.cols; ++j) out(j, i) = a(i, j);
  return out;
}

// The band of one matrix at every penalty, with the solution for the right-hand sides in the band basis.
class ShiftedPath {
 public:
  ShiftedPath(Matrix<double> gram, MatrixView<const double> rhs, const std::vector<double>& shifts,
              int threads, const Execution& execution)
      : band_(BandReduction<double>::reduce(std::move(gram), threads,
                                            [&](double done) {
                                              execution.check_cancelled();
                                              execution.report("factorise", done, 1);
                                            })),
        threads_(threads),
        outputs_(rhs.cols),
        solutions_(static_cast<Index>(shifts.size()) * rhs.cols, rhs.rows) {
    Matrix<double> rotated = transposed(rhs);
    band_.to_band_basis(rotated, threads);
    for (std::size_t k = 0; k < shifts.size(); ++k) {
      factors_.emplace_back(band_, shifts[k]);
      const MatrixView<double> rows = solution(static_cast<Index>(k));
      for (Index c = 0; c < outputs_; ++c) std::copy_n(rotated.data() + c * rhs.rows, rhs.rows, rows.row(c));
      if (usable(static_cast<Index>(k))) factors_.back().solve(rows, threads);
    }
  }

  const BandReduction<double>& band() const { return band_; }
  Index count() const { return static_cast<Index>(factors_.size()); }
  bool usable(Index k) const { return factors_[static_cast<std::size_t>(k)].result().ok(); }
  void quadratic_forms(Index k, MatrixView<const double> rows, double* out) const {
    factors_[static_cast<std::size_t>(k)].quadratic_forms(rows, out, threads_);
  }
  MatrixView<double> solution(Index k) {  // (q, size), in the band basis
    return solutions_.view().block(k * outputs_, 0, outputs_, solutions_.cols());
  }
  MatrixView<double> all_solutions() { return solutions_; }
  Matrix<double> coefficients(Index k) {  // (size, q), in the original basis
    const MatrixView<double> rows = solution(k);
    band_.from_band_basis(rows, threads_);
    return transposed(rows);
  }

 private:
  BandReduction<double> band_;
  int threads_;
  Index outputs_;
  std::vector<ShiftedBand<double>> factors_;
  Matrix<double> solutions_;  // (penalties q, size)
};

std::vector<double> shifts_of(const std::vector<double>& ridges, Index count) {
  std::vector<double> shifts;
  for (const double ridge : ridges) shifts.push_back(ridge * static_cast<double>(count));
  return shifts;
}

RidgePath choose(ShiftedPath& path, const std::vector<double>& ridges, const std::vector<double>& squares,
                 Index entries) {
  RidgePath out;
  for (std::size_t k = 0; k < ridges.size(); ++k)
    out.trials.push_back({ridges[k], path.usable(static_cast<Index>(k))
                                         ? squares[k] / static_cast<double>(entries)
                                         : kInfinity});
  const Index best = best_trial(out.trials);
  if (!std::isfinite(out.trials[static_cast<std::size_t>(best)].error)) {
    out.status = FitStatus::not_positive_definite;
    return out;
  }
  out.ridge = ridges[static_cast<std::size_t>(best)];
  out.coefficients = path.coefficients(best);
  return out;
}

}  // namespace

std::vector<double> ridge_grid(double mean_diagonal, Index count, Precision precision) {
  if (mean_diagonal <= 0) return {1.0};  // no feature varies: every penalty gives V = 0
  const double top = 1e3 * mean_diagonal;
  const double bottom = mean_diagonal * smallest_share(precision) / static_cast<double>(count);
  std::vector<double> grid;
  for (double ridge = top; ridge >= bottom * 0.99; ridge /= std::sqrt(10.0)) grid.push_back(ridge);
  return grid;
}

Index best_trial(const std::vector<RidgeTrial>& trials) {
  Index best = 0;
  for (std::size_t k = 1; k < trials.size(); ++k) {
    const double leader = trials[static_cast<std::size_t>(best)].error;
    if (trials[k].error < leader * (1 - 1e-12) || (!std::isfinite(leader) && std::isfinite(trials[k].error)))
      best = static_cast<Index>(k);
  }
  return best;
}

RidgePath dual_path(Matrix<double> gram, MatrixView<const double> y, const FitOptions& options, int threads,
                    const Execution& execution) {
  const Index n = gram.rows();
  const double mean_diagonal = trace(gram) / static_cast<double>(n);
  const std::vector<double> ridges = ridge_grid(mean_diagonal, n, options.features.precision);
  const std::vector<double> shifts = shifts_of(ridges, n);
  if (options.intercept)
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j <= i; ++j) gram(i, j) += mean_diagonal / static_cast<double>(n);
  ShiftedPath path(std::move(gram), y, shifts, threads, execution);
  const Matrix<double> basis = path.band().basis(threads);
  Matrix<double> alpha(path.count() * y.cols, n);
  std::copy_n(path.all_solutions().data, alpha.rows() * n, alpha.data());
  path.band().from_band_basis(alpha, threads);

  std::vector<double> squares(ridges.size(), 0.0), diagonal(static_cast<std::size_t>(n));
  for (Index k = 0; k < path.count(); ++k) {
    execution.check_cancelled();
    execution.report("ridge path", static_cast<double>(k), static_cast<double>(path.count()));
    if (!path.usable(k)) continue;
    path.quadratic_forms(k, basis, diagonal.data());
    const double shift = shifts[static_cast<std::size_t>(k)];
    const double constant =
        options.intercept ? 1.0 / (static_cast<double>(n) * (mean_diagonal + shift)) : 0.0;
    double& sum = squares[static_cast<std::size_t>(k)];
    for (Index i = 0; i < n; ++i) {
      const double denominator = diagonal[static_cast<std::size_t>(i)] - constant;
      for (Index c = 0; c < y.cols; ++c) {
        const double error = alpha(k * y.cols + c, i) / denominator;
        sum += denominator > 0 ? error * error : kInfinity;
      }
    }
  }
  return choose(path, ridges, squares, n * y.cols);
}

template <class T>
RidgePath primal_path(DesignMatrix<T>& design, PrimalSystem system, MatrixView<const double> y,
                      const FitOptions& options, const Execution& execution) {
  const Index n = y.rows, q = y.cols;
  const std::vector<double> ridges =
      ridge_grid(trace(system.gram) / static_cast<double>(n), n, options.features.precision);
  ShiftedPath path(std::move(system.gram), system.rhs, shifts_of(ridges, n), design.threads(), execution);
  const double constant = options.intercept ? 1.0 / static_cast<double>(n) : 0.0;
  std::vector<double> squares(ridges.size(), 0.0);

  design.for_row_blocks("ridge path", [&](Index first, MatrixView<const T> block) {
    for (Index start = 0; start < block.rows; start += kRowTile) {
      const Index rows = std::min(kRowTile, block.rows - start);
      Matrix<double> rotated(rows, block.cols);
      for (Index i = 0; i < rows; ++i)
        for (Index j = 0; j < block.cols; ++j) rotated(i, j) = static_cast<double>(block(start + i, j));
      path.band().to_band_basis(rotated, design.threads());
      Matrix<double> fitted(rows, path.count() * q);
      multiply(Trans::no, Trans::yes, 1.0, rotated, path.all_solutions(), 0.0, fitted, design.threads());
      std::vector<double> leverage(static_cast<std::size_t>(rows));
      for (Index k = 0; k < path.count(); ++k) {
        if (!path.usable(k)) continue;
        path.quadratic_forms(k, rotated, leverage.data());
        for (Index i = 0; i < rows; ++i) {
          const double left = 1 - constant - leverage[static_cast<std::size_t>(i)];
          for (Index c = 0; c < q; ++c) {
            const double error = (y(first + start + i, c) - fitted(i, k * q + c)) / left;
            squares[static_cast<std::size_t>(k)] += left > 0 ? error * error : kInfinity;
          }
        }
      }
    }
  });
  return choose(path, ridges, squares, n * q);
}

template RidgePath primal_path(DesignMatrix<float>&, PrimalSystem, MatrixView<const double>,
                               const FitOptions&, const Execution&);
template RidgePath primal_path(DesignMatrix<double>&, PrimalSystem, MatrixView<const double>,
                               const FitOptions&, const Execution&);

}  // namespace headlens

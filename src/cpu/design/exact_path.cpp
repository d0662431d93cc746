#include "cpu/design/exact_path.hpp"

#include <algorithm>
#include <limits>

#include "cpu/design/design_matrix.hpp"
#include "linalg/multiply.hpp"
#include "linalg/shifted_band.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::cpu {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// (A + shift)^-1 through the band.
class BandFactor final : public backend::Factor {
 public:
  BandFactor(const BandReduction<double>& band, double shift, int threads)
      : band_(band), factor_(band, shift), threads_(threads) {}

  bool ok() const { return factor_.result().ok(); }
  void solve(MatrixView<const double> in, MatrixView<double> out) override {
    Matrix<double> rows = transposed(in);
    band_.to_band_basis(rows, threads_);
    factor_.solve(rows, threads_);
    band_.from_band_basis(rows, threads_);
    copy_rows(transposed(rows), out);
  }

 private:
  const BandReduction<double>& band_;
  ShiftedBand<double> factor_;
  int threads_;
};

// The band at every shift, with the solutions for the right-hand sides in the band basis.
class ShiftedBands {
 public:
  ShiftedBands(const BandReduction<double>& band, MatrixView<const double> rhs,
               const std::vector<double>& shifts, int threads)
      : threads_(threads), solutions_(static_cast<Index>(shifts.size()) * rhs.cols, rhs.rows) {
    Matrix<double> rotated = transposed(rhs);
    band.to_band_basis(rotated, threads);
    for (std::size_t k = 0; k < shifts.size(); ++k) {
      factors_.emplace_back(band, shifts[k]);
      const MatrixView<double> rows =
          solutions_.view().block(static_cast<Index>(k) * rhs.cols, 0, rhs.cols, rhs.rows);
      copy_rows(rotated, rows);
      if (usable(static_cast<Index>(k))) factors_.back().solve(rows, threads);
    }
  }

  Index count() const { return static_cast<Index>(factors_.size()); }
  bool usable(Index k) const { return factors_[static_cast<std::size_t>(k)].result().ok(); }
  void quadratic_forms(Index k, MatrixView<const double> rows, double* out) const {
    factors_[static_cast<std::size_t>(k)].quadratic_forms(rows, out, threads_);
  }
  const Matrix<double>& solutions() const { return solutions_; }  // (shifts q, size)

 private:
  int threads_;
  std::vector<ShiftedBand<double>> factors_;
  Matrix<double> solutions_;
};

class ExactPath final : public backend::ShiftPath {
 public:
  ExactPath(BandReduction<double> band, double mean_diagonal,
            std::shared_ptr<const NormalEquations> equations, const backend::Context& context)
      : band_(std::move(band)),
        mean_diagonal_(mean_diagonal),
        equations_(std::move(equations)),
        context_(context) {}

  std::vector<double> leave_one_out(const std::vector<double>& shifts) override {
    const ShiftedBands bands(band_, equations_->right_side(), shifts, context_.threads);
    const double items = static_cast<double>(examples() * equations_->targets.cols);
    std::vector<double> errors = equations_->dual() ? dual_squares(bands, shifts) : primal_squares(bands);
    for (std::size_t k = 0; k < errors.size(); ++k)
      errors[k] = bands.usable(static_cast<Index>(k)) ? errors[k] / items : kInfinity;
    return errors;
  }

  std::unique_ptr<backend::Factor> factor(double shift) override {
    auto out = std::make_unique<BandFactor>(band_, shift, context_.threads);
    if (!out->ok()) return nullptr;
    return out;
  }

 private:
  // Of all ranks.
  Index examples() const {
    return equations_->dual() ? equations_->targets.rows : equations_->design->whole().count;
  }
  std::vector<double> dual_squares(const ShiftedBands& bands, const std::vector<double>& shifts) const;
  std::vector<double> primal_squares(const ShiftedBands& bands) const;

  BandReduction<double> band_;
  double mean_diagonal_;
  std::shared_ptr<const NormalEquations> equations_;
  backend::Context context_;
};

std::vector<double> ExactPath::dual_squares(const ShiftedBands& bands,
                                            const std::vector<double>& shifts) const {
  const Execution& execution = context_.execution;
  const Index n = band_.size(), q = equations_->targets.cols;
  const Matrix<double> basis = band_.basis(context_.threads);
  Matrix<double> alpha(bands.count() * q, n);
  copy_rows(bands.solutions(), alpha);
  band_.from_band_basis(alpha, context_.threads);
  std::vector<double> squares(shifts.size(), 0.0), diagonal(static_cast<std::size_t>(n));
  for (Index k = 0; k < bands.count(); ++k) {
    execution.check_cancelled();
    execution.report("ridge path", static_cast<double>(k), static_cast<double>(bands.count()));
    if (!bands.usable(k)) continue;
    bands.quadratic_forms(k, basis, diagonal.data());
    const double shift = shifts[static_cast<std::size_t>(k)];
    const double constant =
        equations_->intercept ? 1.0 / (static_cast<double>(n) * (mean_diagonal_ + shift)) : 0.0;
    double& sum = squares[static_cast<std::size_t>(k)];
    for (Index i = 0; i < n; ++i) {
      const double denominator = diagonal[static_cast<std::size_t>(i)] - constant;
      for (Index c = 0; c < q; ++c) {
        const double error = alpha(k * q + c, i) / denominator;
        sum += denominator > 0 ? error * error : kInfinity;
      }
    }
  }
  return squares;
}

std::vector<double> ExactPath::primal_squares(const ShiftedBands& bands) const {
  const MatrixView<const double> y = equations_->targets;
  const Index q = y.cols;
  const double constant = equations_->intercept ? 1.0 / static_cast<double>(examples()) : 0.0;
  std::vector<double> squares(static_cast<std::size_t>(bands.count()), 0.0);
  equations_->design->for_tiles("ridge path", [&](Index first, Matrix<double>& rows) {
    band_.to_band_basis(rows, context_.threads);
    Matrix<double> fitted(rows.rows(), bands.count() * q);
    headlens::multiply(Trans::no, Trans::yes, 1.0, rows, bands.solutions(), 0.0, fitted, context_.threads);
    std::vector<double> leverage(static_cast<std::size_t>(rows.rows()));
    for (Index k = 0; k < bands.count(); ++k) {
      if (!bands.usable(k)) continue;
      bands.quadratic_forms(k, rows, leverage.data());
      for (Index i = 0; i < rows.rows(); ++i) {
        const double left = 1 - constant - leverage[static_cast<std::size_t>(i)];
        for (Index c = 0; c < q; ++c) {
          const double error = (y(first + i, c) - fitted(i, k * q + c)) / left;
          squares[static_cast<std::size_t>(k)] += left > 0 ? error * error : kInfinity;
        }
      }
    }
  });
  context_.ranks.sum(squares);
  return squares;
}

}  // namespace

std::unique_ptr<backend::ShiftPath> make_exact_path(Matrix<double> gram,
                                                    std::shared_ptr<const NormalEquations> equations,
                                                    const backend::Context& context) {
  const Index size = gram.rows();
  const double mean_diagonal = trace(gram) / static_cast<double>(size);
  if (equations->dual() && equations->intercept)
    for (Index i = 0; i < size; ++i)
      for (Index j = 0; j <= i; ++j) gram(i, j) += mean_diagonal / static_cast<double>(size);
  const Execution& execution = context.execution;
  auto band = BandReduction<double>::reduce(std::move(gram), context.threads, [&](double done) {
    execution.check_cancelled();
    execution.report("factorise", done, 1);
  });
  return std::make_unique<ExactPath>(std::move(band), mean_diagonal, std::move(equations), context);
}

}  // namespace headlens::cpu

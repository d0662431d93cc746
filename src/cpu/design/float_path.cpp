#include "cpu/design/float_path.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "linalg/band.hpp"
#include "linalg/multiply.hpp"
#include "linalg/shifted_band.hpp"

namespace headlens::cpu {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr float kEpsilon = std::numeric_limits<float>::epsilon();
// Shifts below this share of |B| are not tried. In the dual the rounding of the band, c eps |B|, must move
// its inverse by some percent at most. In the primal residuals are measured, so that a wrong V is seen.
constexpr float resolved_share(bool dual) { return (dual ? 32 : 4) * kEpsilon; }

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

// The mean squared leave-one-out error of one shift, as in backend/design.hpp. residuals: (n, q) of this
// shift, of the examples of this rank; left: d_i of the examples left out.
double mean_error(MatrixView<const float> residuals, const std::vector<double>& left,
                  const std::vector<Index>& examples, const Whole& whole, comm::Communicator& ranks) {
  const auto square = [&](Index i) {
    double sum = 0;
    for (Index c = 0; c < residuals.cols; ++c) sum += std::pow(residuals(i, c), 2);
    return sum;
  };
  std::array<double, 3> sums{};
  auto& [all, some, some_left_out] = sums;
  for (Index i = 0; i < residuals.rows; ++i) all += square(i);
  for (std::size_t e = 0; e < examples.size(); ++e) {
    const Index i = examples[e] - whole.first;
    if (i < 0 || i >= residuals.rows) continue;
    some += square(i);
    some_left_out += left[e] > 0 ? square(i) / (left[e] * left[e]) : kInfinity;
  }
  ranks.sum(sums);
  const double mean = all / static_cast<double>(whole.count * residuals.cols);
  return some > 0 ? mean * some_left_out / some : mean;
}

class FloatBandFactor final : public backend::Factor {
 public:
  FloatBandFactor(const BandReduction<float>& band, const std::vector<Index>& unknowns, float shift,
                  int threads)
      : band_(band), unknowns_(unknowns), factor_(band, shift), threads_(threads) {}

  bool ok() const { return factor_.result().ok(); }
  void solve(MatrixView<const double> in, MatrixView<double> out) override {
    Matrix<float> rows = pick_transposed(in, unknowns_);
    band_.to_band_basis(rows, threads_);
    factor_.solve(rows, threads_);
    band_.from_band_basis(rows, threads_);
    put_transposed<double>(rows, unknowns_, out);
  }

 private:
  const BandReduction<float>& band_;
  const std::vector<Index>& unknowns_;
  ShiftedBand<float> factor_;
  int threads_;
};

class FloatPath final : public backend::ShiftPath {
 public:
  // The Gram matrix of `system` has become the band; right side and rows left out are in the band basis.
  FloatPath(HostDesign& design, BandReduction<float> band, FloatSystem system,
            const backend::GramRequest& request, double mean_diagonal)
      : design_(design),
        band_(std::move(band)),
        system_(std::move(system)),
        request_(request),
        mean_diagonal_(mean_diagonal) {}

  std::vector<double> leave_one_out(const std::vector<double>& shifts) override;
  std::unique_ptr<backend::Factor> factor(double shift) override {
    auto out = std::make_unique<FloatBandFactor>(band_, system_.unknowns, static_cast<float>(shift),
                                                 design_.threads());
    if (!out->ok()) return nullptr;
    return out;
  }

 private:
  std::vector<double> left_over(const ShiftedBand<float>& factor, double shift) const;
  Matrix<float> residuals(Matrix<float> solutions) const;

  HostDesign& design_;
  BandReduction<float> band_;
  FloatSystem system_;
  backend::GramRequest request_;
  double mean_diagonal_;
};

// d_i of the examples left out.
std::vector<double> FloatPath::left_over(const ShiftedBand<float>& factor, double shift) const {
  const double n = static_cast<double>(system_.examples);
  const bool dual = system_.dual();
  const double constant = !request_.intercept ? 0.0 : 1.0 / (n * (dual ? mean_diagonal_ + shift : 1.0));
  std::vector<float> forms(static_cast<std::size_t>(system_.left_out.rows()));
  factor.quadratic_forms(system_.left_out, forms.data(), design_.threads());
  std::vector<double> out;
  for (const float form : forms)
    out.push_back(dual ? static_cast<double>(form) - constant : 1 - constant - static_cast<double>(form));
  return out;
}

// (n, shifts q): Y - Phi V of every shift in the primal; in the dual alpha, the residual over n ridge.
Matrix<float> FloatPath::residuals(Matrix<float> solutions) const {
  const MatrixView<const double> y = request_.targets;
  band_.from_band_basis(solutions, design_.threads());
  Matrix<float> out(y.rows, solutions.rows());
  if (system_.dual()) {
    put_transposed<float>(solutions, system_.unknowns, out);
    return out;
  }
  Matrix<float> values(design_.columns(), solutions.rows());
  put_transposed<float>(solutions, system_.unknowns, values);
  design_.for_float_blocks("ridge path", [&](Index first, MatrixView<const float> block) {
    const MatrixView<float> rows = out.view().block(first, 0, block.rows, out.cols());
    for (Index i = 0; i < rows.rows; ++i)
      for (Index k = 0; k < rows.cols; ++k) rows(i, k) = static_cast<float>(y(first + i, k % y.cols));
    headlens::multiply(Trans::no, Trans::no, -1.0F, block, values, 1.0F, rows, design_.threads());
  });
  return out;
}

std::vector<double> FloatPath::leave_one_out(const std::vector<double>& shifts) {
  const Execution& execution = design_.context().execution;
  const auto smallest = static_cast<double>(resolved_share(system_.dual()) * row_sum_norm(band_));
  const Index q = system_.rhs.rows(), size = system_.rhs.cols();
  Matrix<float> solutions(std::ssize(shifts) * q, size);
  std::vector<std::vector<double>> left;
  for (const double shift : shifts) {
    execution.check_cancelled();
    execution.report("ridge path", static_cast<double>(left.size()), static_cast<double>(shifts.size()));
    const ShiftedBand<float> factor(band_, static_cast<float>(shift));
    if (shift < smallest || !factor.result().ok()) break;
    const MatrixView<float> solution = solutions.view().block(std::ssize(left) * q, 0, q, size);
    copy_rows(system_.rhs, solution);
    factor.solve(solution, design_.threads());
    left.push_back(left_over(factor, shift));
  }
  if (left.empty()) return {};
  Matrix<float> found(std::ssize(left) * q, size);
  copy_rows(solutions.view().block(0, 0, found.rows(), size), found);
  const Matrix<float> all = residuals(std::move(found));
  std::vector<double> errors;
  for (Index k = 0; k < std::ssize(left); ++k)
    errors.push_back(mean_error(all.view().block(0, k * q, all.rows(), q), left[static_cast<std::size_t>(k)],
                                request_.left_out, design_.whole(), design_.context().ranks));
  return errors;
}

}  // namespace

std::unique_ptr<backend::ShiftPath> make_float_path(HostDesign& design, FloatSystem system,
                                                    const backend::GramRequest& request, double trace) {
  const Execution& execution = design.context().execution;
  const Index n = system.examples;
  const double mean_diagonal = trace / static_cast<double>(n);
  if (!(mean_diagonal > 1e-12 && mean_diagonal < 1e24)) return nullptr;  // squares of float: 1e-38 to 1e38
  if (system.dual() && request.intercept)
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j <= i; ++j)
        system.gram(i, j) += static_cast<float>(mean_diagonal / static_cast<double>(n));
  auto band = BandReduction<float>::reduce(std::move(system.gram), design.threads(), [&](double done) {
    execution.check_cancelled();
    execution.report("factorise", done, 1);
  });
  band.to_band_basis(system.rhs, design.threads());
  band.to_band_basis(system.left_out, design.threads());
  return std::make_unique<FloatPath>(design, std::move(band), std::move(system), request, mean_diagonal);
}

}  // namespace headlens::cpu

#include "cuda/design/shift_path.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "cuda/design/symmetric_kernels.hpp"

namespace headlens::cuda {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr Index kForms = 4096;  // quadratic forms at a time

// Shifts below this share of |G| are not tried in float: its rounding must move the inverse by some percent
// at most in the dual; in the primal residuals are measured, so that a wrong V is seen.
double resolved_share(bool dual) { return (dual ? 32 : 4) * std::numeric_limits<float>::epsilon(); }

// The mean squared leave-one-out error of one shift, as in backend/design.hpp. left: d_i of the examples.
double mean_error(MatrixView<const double> residuals, const std::vector<double>& left,
                  const std::vector<Index>& examples) {
  const auto square = [&](Index i) {
    double sum = 0;
    for (Index c = 0; c < residuals.cols; ++c) sum += residuals(i, c) * residuals(i, c);
    return sum;
  };
  double all = 0, some = 0, some_left_out = 0;
  for (Index i = 0; i < residuals.rows; ++i) all += square(i);
  for (std::size_t e = 0; e < examples.size(); ++e) {
    some += square(examples[e]);
    some_left_out += left[e] > 0 ? square(examples[e]) / (left[e] * left[e]) : kInfinity;
  }
  const double mean = all / static_cast<double>(residuals.rows * residuals.cols);
  return some > 0 ? mean * some_left_out / some : mean;
}

template <class T>
class PathFactor final : public backend::Factor {
 public:
  explicit PathFactor(const Symmetric<T>& matrix) : matrix_(matrix) {}
  void solve(MatrixView<const double> in, MatrixView<double> out) override {
    solve_factored(matrix_, in, out);
  }

 private:
  const Symmetric<T>& matrix_;
};

template <class T>
class DevicePath final : public backend::ShiftPath {
 public:
  DevicePath(Symmetric<T> matrix, double mean_diagonal, std::shared_ptr<const Equations> equations,
             const backend::Context& context)
      : matrix_(std::move(matrix)),
        mean_diagonal_(mean_diagonal),
        equations_(std::move(equations)),
        examples_(equations_->left_out),
        context_(context) {
    if constexpr (kSingle) smallest_ = resolved_share(equations_->dual()) * matrix_.frobenius();
    if (!examples_.empty()) return;
    examples_.resize(static_cast<std::size_t>(equations_->targets.rows));
    std::iota(examples_.begin(), examples_.end(), Index{0});
  }

  std::vector<double> leave_one_out(const std::vector<double>& shifts) override;
  bool one_factor() const override { return false; }
  std::unique_ptr<backend::Factor> factor(double shift) override {
    if (best_.size() > 0 && best_.shift() == shift) return std::make_unique<PathFactor<T>>(best_);
    if (!matrix_.factorise(shift)) return nullptr;
    return std::make_unique<PathFactor<T>>(matrix_);
  }

 private:
  static constexpr bool kSingle = sizeof(T) == 4;

  Matrix<double> residuals(const Matrix<double>& solution) const;
  std::vector<double> left_over(double shift);

  Symmetric<T> matrix_, best_;  // best: with the factor of the least error so far, which is often asked for
  double mean_diagonal_;
  double smallest_ = 0;  // shift that is tried
  double least_ = kInfinity;
  std::shared_ptr<const Equations> equations_;
  std::vector<Index> examples_;  // left out
  DeviceArray<T> rows_;          // of them, where they are few and features are dear
  backend::Context context_;
};

// (n, q): Y - Phi V in the primal; in the dual alpha, the residual over n ridge.
template <class T>
Matrix<double> DevicePath<T>::residuals(const Matrix<double>& solution) const {
  const MatrixView<const double> y = equations_->targets;
  Matrix<double> out(y.rows, y.cols);
  if (equations_->dual()) {
    copy_rows(solution, out);
    return out;
  }
  out = equations_->design->forward(solution, "ridge path");
  for (Index i = 0; i < y.rows; ++i)
    for (Index c = 0; c < y.cols; ++c) out(i, c) = y(i, c) - out(i, c);
  return out;
}

// d_i of the examples left out.
template <class T>
std::vector<double> DevicePath<T>::left_over(double shift) {
  const Index size = matrix_.size(), count = std::ssize(examples_);
  const bool dual = equations_->dual();
  const double n = static_cast<double>(equations_->targets.rows);
  const double constant = !equations_->intercept ? 0.0 : 1.0 / (n * (dual ? mean_diagonal_ + shift : 1.0));
  std::vector<double> out;
  for (Index first = 0; first < count; first += kForms) {
    context_.execution.check_cancelled();
    const Index forms = std::min(kForms, count - first);
    const std::vector<Index> some(examples_.begin() + first, examples_.begin() + first + forms);
    DeviceArray<T> b(forms * size);
    DeviceArray<double> squares(forms);
    if (dual)
      unit_vectors(DeviceArray<std::int64_t>::from({some.begin(), some.end()}).data(), size, forms, b.data());
    else if (count > kForms)
      equations_->design->gather(some, b.data());
    else {
      if (rows_.size() == 0) {
        rows_ = DeviceArray<T>(forms * size);
        equations_->design->gather(some, rows_.data());
      }
      b = rows_.clone();
    }
    matrix_.half_solve(b.data(), forms);
    column_squares(b.data(), size, forms, squares.data());
    for (const double form : squares.to_host()) out.push_back(dual ? form - constant : 1 - constant - form);
  }
  return out;
}

template <class T>
std::vector<double> DevicePath<T>::leave_one_out(const std::vector<double>& shifts) {
  const Execution& execution = context_.execution;
  const DeviceArray<T> rhs = upload_columns<T>(equations_->right_side());
  std::vector<double> errors;
  for (const double shift : shifts) {
    execution.check_cancelled();
    execution.report("ridge path", static_cast<double>(errors.size()), static_cast<double>(shifts.size()));
    if (shift < smallest_) break;
    if (!matrix_.factorise(shift)) {
      if (kSingle) break;
      errors.push_back(kInfinity);
      continue;
    }
    DeviceArray<T> found = rhs.clone();
    matrix_.solve(found.data(), equations_->targets.cols);
    Matrix<double> solution(matrix_.size(), equations_->targets.cols);
    download_columns(found, solution);
    errors.push_back(mean_error(residuals(solution), left_over(shift), examples_));
    if (errors.back() >= least_) continue;
    least_ = errors.back();
    best_ = {};
    best_ = matrix_.clone_factored();
  }
  return errors;
}

double norm(MatrixView<const double> a) {
  double sum = 0;
  for (Index i = 0; i < a.rows; ++i)
    for (Index c = 0; c < a.cols; ++c) sum += a(i, c) * a(i, c);
  return std::sqrt(sum);
}

// b - (matrix + shift) x
Matrix<double> residual(const Symmetric<double>& matrix, MatrixView<const double> b,
                        MatrixView<const double> x) {
  const DeviceArray<double> in = upload_columns<double>(x);
  DeviceArray<double> product(in.size());
  matrix.multiply(in.data(), x.cols, product.data());
  Matrix<double> out(b.rows, b.cols);
  download_columns(product, out);
  for (Index i = 0; i < b.rows; ++i)
    for (Index c = 0; c < b.cols; ++c) out(i, c) = b(i, c) - out(i, c);
  return out;
}

}  // namespace

template <class T>
void solve_factored(const Symmetric<T>& matrix, MatrixView<const double> in, MatrixView<double> out) {
  DeviceArray<T> x = upload_columns<T>(in);
  matrix.solve(x.data(), in.cols);
  download_columns(x, out);
  if constexpr (sizeof(T) == sizeof(double)) {
    constexpr int kRefinements = 2;
    Matrix<double> left = residual(matrix, in, out), better(in.rows, in.cols);
    for (int step = 0; step < kRefinements; ++step) {
      DeviceArray<double> change = upload_columns<double>(left);
      matrix.solve(change.data(), in.cols);
      download_columns(change, better);
      for (Index i = 0; i < in.rows; ++i)
        for (Index c = 0; c < in.cols; ++c) better(i, c) += out(i, c);
      Matrix<double> now = residual(matrix, in, better);
      if (!(norm(now) < 0.5 * norm(left))) break;
      copy_rows(better, out);
      left = std::move(now);
    }
  }
}

template <class T>
std::unique_ptr<backend::ShiftPath> make_shift_path(Symmetric<T> matrix,
                                                    std::shared_ptr<const Equations> equations,
                                                    const backend::Context& context) {
  const double n = static_cast<double>(equations->targets.rows);
  const double mean_diagonal = matrix.trace() / n;
  if (sizeof(T) == 4 && !(mean_diagonal > 1e-12 && mean_diagonal < 1e24)) return nullptr;
  if (equations->dual() && equations->intercept) matrix.add_constant(mean_diagonal / n);
  return std::make_unique<DevicePath<T>>(std::move(matrix), mean_diagonal, std::move(equations), context);
}

template void solve_factored(const Symmetric<float>&, MatrixView<const double>, MatrixView<double>);
template void solve_factored(const Symmetric<double>&, MatrixView<const double>, MatrixView<double>);
template std::unique_ptr<backend::ShiftPath> make_shift_path(Symmetric<float>,
                                                             std::shared_ptr<const Equations>,
                                                             const backend::Context&);
template std::unique_ptr<backend::ShiftPath> make_shift_path(Symmetric<double>,
                                                             std::shared_ptr<const Equations>,
                                                             const backend::Context&);

}  // namespace headlens::cuda

#include "distributed/block_cyclic_gram.hpp"

#include <cmath>
#include <limits>
#include <numeric>

#include "headlens/error.hpp"

namespace headlens::distributed {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// K = U S U^T.
struct Eigen {
  CyclicMatrix vectors;
  std::vector<double> values;
};

std::optional<Eigen> eigen_of(CyclicMatrix matrix, const backend::Context& context) {
  context.execution.report("factorise", 0, 1);
  Eigen out{{matrix.n, matrix.rows, matrix.columns, Array(DType::f64, matrix.local.shape())},
            std::vector<double>(static_cast<std::size_t>(matrix.n))};
  if (!context.ranks.grid().eigen(matrix.data(), matrix.n, out.values.data(), out.vectors.data()))
    return std::nullopt;
  return out;
}

// U diag(w) U^T in
Matrix<double> weighted(const Eigen& eigen, const std::vector<double>& w, MatrixView<const double> in,
                        const backend::Context& context) {
  Matrix<double> inner = multiply_transposed(eigen.vectors, in, context.threads, context.ranks);
  for (Index k = 0; k < inner.rows(); ++k)
    for (Index c = 0; c < inner.cols(); ++c) inner(k, c) *= w[static_cast<std::size_t>(k)];
  return multiply(eigen.vectors, inner, context.threads, context.ranks);
}

class EigenFactor final : public backend::Factor {
 public:
  EigenFactor(const Eigen& eigen, double shift, const backend::Context& context)
      : eigen_(eigen), context_(context) {
    for (const double value : eigen.values) weights_.push_back(1 / (value + shift));
  }
  void solve(MatrixView<const double> in, MatrixView<double> out) override {
    copy_rows(weighted(eigen_, weights_, in, context_), out);
  }

 private:
  const Eigen& eigen_;
  backend::Context context_;
  std::vector<double> weights_;
};

// K + shift, factored below the diagonal; above it K is still there, and refines what is solved.
class CyclicFactor final : public backend::Factor {
 public:
  CyclicFactor(CyclicMatrix matrix, double shift, const backend::Context& context)
      : matrix_(std::move(matrix)), context_(context) {
    diagonal_ = diagonal(matrix_, context_.ranks);
    for (double& value : diagonal_) value += shift;
    each_diagonal([&](double& entry, Index) { entry += shift; });
    ok_ = context_.ranks.grid().cholesky(matrix_.data(), matrix_.n);
  }
  bool ok() const { return ok_; }

  // Refined until the residual no longer halves.
  void solve(MatrixView<const double> in, MatrixView<double> out) override {
    Matrix<double> residual(in.rows, in.cols);
    copy_rows(in, residual);
    for (Index i = 0; i < out.rows; ++i) std::fill_n(out.row(i), out.cols, 0.0);
    double before = kInfinity;
    for (double size = norm(residual); size > 0 && size < before / 2;) {
      before = size;
      const Matrix<double> step = direct(residual);
      add_to(step, out);
      const Matrix<double> image = product(out);
      for (Index i = 0; i < in.rows; ++i)
        for (Index c = 0; c < in.cols; ++c) residual(i, c) = in(i, c) - image(i, c);
      size = norm(residual);
    }
  }

 private:
  template <class Act>
  void each_diagonal(const Act& act) {
    const MatrixView<double> view = matrix_.view();
    for (Index j = 0; j < view.rows; ++j)
      for (Index i = 0; i < view.cols; ++i)
        if (matrix_.columns[static_cast<std::size_t>(j)] == matrix_.rows[static_cast<std::size_t>(i)])
          act(view(j, i), matrix_.rows[static_cast<std::size_t>(i)]);
  }
  static double norm(const Matrix<double>& a) {
    return std::sqrt(std::inner_product(a.data(), a.data() + a.rows() * a.cols(), a.data(), 0.0));
  }
  static void add_to(const Matrix<double>& step, MatrixView<double> out) {
    for (Index i = 0; i < out.rows; ++i)
      for (Index c = 0; c < out.cols; ++c) out(i, c) += step(i, c);
  }

  // (L L^T)^-1 in; right sides lie on the grid as the matrix does, in blocks of columns.
  Matrix<double> direct(MatrixView<const double> in) {
    comm::Communicator& ranks = context_.ranks;
    const comm::GridPlace place = ranks.grid().place(matrix_.n);
    std::vector<Index> columns;
    for (Index c = 0; c < in.cols; ++c)
      if (c / place.block % place.columns == place.column) columns.push_back(c);
    const std::size_t rows = matrix_.rows.size();
    std::vector<double> local(std::max<std::size_t>(1, rows * columns.size()));
    for (std::size_t c = 0; c < columns.size(); ++c)
      for (std::size_t i = 0; i < rows; ++i) local[c * rows + i] = in(matrix_.rows[i], columns[c]);
    ranks.grid().cholesky_solve(matrix_.data(), matrix_.n, local.data(), in.cols);
    Matrix<double> out = Matrix<double>::zeros(in.rows, in.cols);
    for (std::size_t c = 0; c < columns.size(); ++c)
      for (std::size_t i = 0; i < rows; ++i) out(matrix_.rows[i], columns[c]) = local[c * rows + i];
    ranks.sum({out.data(), static_cast<std::size_t>(in.rows * in.cols)});
    return out;
  }

  // (K + shift) in, from what lies above the diagonal.
  Matrix<double> product(MatrixView<const double> in) {
    Matrix<double> out = Matrix<double>::zeros(in.rows, in.cols);
    const MatrixView<const double> view = std::as_const(matrix_).view();
    for (Index b = 0; b < view.rows; ++b) {
      const Index j = matrix_.columns[static_cast<std::size_t>(b)];
      for (Index a = 0; a < view.cols && matrix_.rows[static_cast<std::size_t>(a)] < j; ++a) {
        const Index i = matrix_.rows[static_cast<std::size_t>(a)];
        for (Index c = 0; c < in.cols; ++c) {
          out(i, c) += view(b, a) * in(j, c);
          out(j, c) += view(b, a) * in(i, c);
        }
      }
    }
    context_.ranks.sum({out.data(), static_cast<std::size_t>(in.rows * in.cols)});
    for (Index i = 0; i < in.rows; ++i)
      for (Index c = 0; c < in.cols; ++c) out(i, c) += diagonal_[static_cast<std::size_t>(i)] * in(i, c);
    return out;
  }

  CyclicMatrix matrix_;
  backend::Context context_;
  std::vector<double> diagonal_;  // of K + shift
  bool ok_ = false;
};

class CyclicPath final : public backend::ShiftPath {
 public:
  CyclicPath(Eigen eigen, double mean_diagonal, MatrixView<const double> targets, bool intercept,
             const backend::Context& context)
      : eigen_(std::move(eigen)),
        mean_diagonal_(mean_diagonal),
        targets_(targets),
        intercept_(intercept),
        context_(context) {}

  std::vector<double> leave_one_out(const std::vector<double>& shifts) override {
    const Index n = targets_.rows, q = targets_.cols, count = std::ssize(shifts);
    const Matrix<double> rotated =
        multiply_transposed(eigen_.vectors, targets_, context_.threads, context_.ranks);
    Matrix<double> inverse(n, count), scaled(n, count * q);
    for (Index i = 0; i < n; ++i)
      for (Index k = 0; k < count; ++k) {
        inverse(i, k) =
            usable(shifts[static_cast<std::size_t>(k)])
                ? 1 / (eigen_.values[static_cast<std::size_t>(i)] + shifts[static_cast<std::size_t>(k)])
                : 0.0;
        for (Index c = 0; c < q; ++c) scaled(i, k * q + c) = rotated(i, c) * inverse(i, k);
      }
    const Matrix<double> alpha = multiply(eigen_.vectors, scaled, context_.threads, context_.ranks);
    const Matrix<double> diagonals = square_sums(eigen_.vectors, inverse, context_.threads, context_.ranks);
    std::vector<double> errors;
    for (Index k = 0; k < count; ++k) errors.push_back(error_at(k, shifts, alpha, diagonals));
    return errors;
  }

  std::unique_ptr<backend::Factor> factor(double shift) override {
    return usable(shift) ? std::make_unique<EigenFactor>(eigen_, shift, context_) : nullptr;
  }

 private:
  bool usable(double shift) const { return eigen_.values.front() + shift > 0; }

  double error_at(Index k, const std::vector<double>& shifts, const Matrix<double>& alpha,
                  const Matrix<double>& diagonals) const {
    const double shift = shifts[static_cast<std::size_t>(k)];
    if (!usable(shift)) return kInfinity;
    const Index n = targets_.rows, q = targets_.cols;
    const double constant = intercept_ ? 1.0 / (static_cast<double>(n) * (mean_diagonal_ + shift)) : 0.0;
    double sum = 0;
    for (Index i = 0; i < n; ++i) {
      const double denominator = diagonals(i, k) - constant;
      for (Index c = 0; c < q; ++c)
        sum += denominator > 0 ? std::pow(alpha(i, k * q + c) / denominator, 2) : kInfinity;
    }
    return sum / static_cast<double>(n * q);
  }

  Eigen eigen_;
  double mean_diagonal_;
  MatrixView<const double> targets_;
  bool intercept_;
  backend::Context context_;
};

}  // namespace

BlockCyclicGram::BlockCyclicGram(CyclicMatrix matrix, MatrixView<const double> targets, bool intercept,
                                 double epsilon, const backend::Context& context)
    : matrix_(std::move(matrix)),
      targets_(targets),
      intercept_(intercept),
      epsilon_(epsilon),
      trace_(0),
      context_(context) {
  for (const double value : diagonal(matrix_, context_.ranks)) trace_ += value;
}

void BlockCyclicGram::multiply(MatrixView<const double> in, MatrixView<double> out) const {
  copy_rows(distributed::multiply(matrix_, in, context_.threads, context_.ranks), out);
}

std::unique_ptr<backend::Gram> BlockCyclicGram::copy() const {
  return std::make_unique<BlockCyclicGram>(matrix_.copy(), targets_, intercept_, epsilon_, context_);
}

std::unique_ptr<backend::Factor> BlockCyclicGram::factor(double shift) {
  context_.execution.report("factorise", 0, 1);
  auto out = std::make_unique<CyclicFactor>(std::move(matrix_), shift, context_);
  if (!out->ok()) return nullptr;
  return out;
}

std::optional<Matrix<double>> BlockCyclicGram::minimum_norm() {
  const std::optional<Eigen> eigen = eigen_of(std::move(matrix_), context_);
  if (!eigen) return std::nullopt;
  const double cutoff = static_cast<double>(targets_.rows) * epsilon_ * eigen->values.back();
  std::vector<double> weights;
  for (const double value : eigen->values) weights.push_back(value > cutoff ? 1 / value : 0.0);
  return weighted(*eigen, weights, targets_, context_);
}

std::unique_ptr<backend::ShiftPath> BlockCyclicGram::shift_path() {
  const double mean_diagonal = trace_ / static_cast<double>(matrix_.n);
  if (intercept_) add_to_all(matrix_, mean_diagonal / static_cast<double>(matrix_.n));
  std::optional<Eigen> eigen = eigen_of(std::move(matrix_), context_);
  if (!eigen) throw Error(ErrorCode::environment, "ScaLAPACK found no eigenvectors of the Gram matrix");
  return std::make_unique<CyclicPath>(std::move(*eigen), mean_diagonal, targets_, intercept_, context_);
}

}  // namespace headlens::distributed

#include "cpu/design/exact_gram.hpp"

#include "cpu/design/design_matrix.hpp"
#include "cpu/design/exact_path.hpp"
#include "headlens/error.hpp"
#include "linalg/blas.hpp"
#include "linalg/eigen.hpp"
#include "linalg/multiply.hpp"
#include "linalg/regularised.hpp"

namespace headlens::cpu {
namespace {

class ExactFactor final : public backend::Factor {
 public:
  ExactFactor(Matrix<double> matrix, double shift, int threads)
      : matrix_(std::move(matrix)), factor_(matrix_, shift, threads) {}

  bool ok() const { return factor_.result().ok(); }
  void solve(MatrixView<const double> in, MatrixView<double> out) override { factor_.solve(in, out); }

 private:
  Matrix<double> matrix_;  // and its factor, in one array
  RegularisedFactor factor_;
};

}  // namespace

ExactGram::ExactGram(Matrix<double> matrix, NormalEquations equations, double epsilon,
                     const backend::Context& context)
    : matrix_(std::move(matrix)),
      equations_(std::make_shared<NormalEquations>(std::move(equations))),
      epsilon_(epsilon),
      context_(context) {}

double ExactGram::trace() const { return cpu::trace(matrix_); }

void ExactGram::multiply(MatrixView<const double> in, MatrixView<double> out) const {
  multiply_symmetric(Triangle::lower, matrix_, in, out, context_.threads);
}

std::unique_ptr<backend::Gram> ExactGram::copy() const {
  ensure(equations_->dual(), "gram: only the dual one is copied");
  Matrix<double> matrix(size(), size());
  copy_rows(matrix_, matrix);
  return std::make_unique<ExactGram>(
      std::move(matrix), NormalEquations{equations_->side, equations_->intercept, equations_->targets},
      epsilon_, context_);
}

std::unique_ptr<backend::Factor> ExactGram::factor(double shift) {
  auto out = std::make_unique<ExactFactor>(std::move(matrix_), shift, context_.threads);
  if (!out->ok()) return nullptr;
  return out;
}

std::optional<Matrix<double>> ExactGram::minimum_norm() {
  const Matrix<double> matrix = std::move(matrix_);
  const MatrixView<const double> rhs = right_side();
  const SymmetricEigen eigen = symmetric_eigen(matrix);
  if (!eigen.ok()) return std::nullopt;
  const double cutoff = static_cast<double>(rhs.rows) * epsilon_ * eigen.values.back();
  Matrix<double> out = Matrix<double>::zeros(rhs.rows, rhs.cols), inner(rhs.rows, rhs.cols);
  gemm(Trans::no, Trans::no, 1.0, eigen.vectors, rhs, 0.0, inner);
  for (Index k = 0; k < rhs.rows; ++k)
    for (Index c = 0; c < rhs.cols; ++c) {
      const double sigma = eigen.values[static_cast<std::size_t>(k)];
      inner(k, c) = sigma > cutoff ? inner(k, c) / sigma : 0.0;
    }
  gemm(Trans::yes, Trans::no, 1.0, eigen.vectors, inner, 0.0, out);
  return out;
}

std::unique_ptr<backend::ShiftPath> ExactGram::shift_path() {
  return make_exact_path(std::move(matrix_), equations_, context_);
}

}  // namespace headlens::cpu

// A back end that computes everything by the obvious loops and counts what it is asked for: the design, its
// Gram matrix and its path. Columns of heads lie in the reverse of the order of the model file, so that
// nobody can rely on an order.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "backend/backend.hpp"
#include "reference/dense.hpp"

namespace headlens::toy {

using reference::Dense;

struct FitCalls {
  int designs = 0, products = 0, grams = 0, factors = 0, paths = 0, kernels = 0, scorers = 0, scores = 0;
};

inline Dense dense(MatrixView<const double> a) {
  Dense out(a.rows, a.cols);
  for (Index i = 0; i < a.rows; ++i)
    for (Index j = 0; j < a.cols; ++j) out(i, j) = a(i, j);
  return out;
}

inline Matrix<double> matrix(const Dense& a) {
  Matrix<double> out(a.rows, a.cols);
  std::copy(a.values.begin(), a.values.end(), out.data());
  return out;
}

inline double trace(const Dense& a) {
  double sum = 0;
  for (Index i = 0; i < a.rows; ++i) sum += a(i, i);
  return sum;
}

// A = L L^T by the formula, or nothing.
inline std::unique_ptr<Dense> cholesky(const Dense& a) {
  auto l = std::make_unique<Dense>(a.rows, a.rows);
  for (Index j = 0; j < a.rows; ++j)
    for (Index i = j; i < a.rows; ++i) {
      double sum = a(i, j);
      for (Index k = 0; k < j; ++k) sum -= (*l)(i, k) * (*l)(j, k);
      if (i == j && !(sum > 0)) return nullptr;
      (*l)(i, j) = i == j ? std::sqrt(sum) : sum / (*l)(j, j);
    }
  return l;
}

inline Dense shifted(Dense a, double shift) {
  for (Index i = 0; i < a.rows; ++i) a(i, i) += shift;
  return a;
}

class Factor final : public backend::Factor {
 public:
  explicit Factor(Dense a) : a_(std::move(a)) {}
  void solve(MatrixView<const double> in, MatrixView<double> out) override {
    copy_rows(matrix(reference::solve(a_, dense(in))), out);
  }

 private:
  Dense a_;
};

inline Dense without_row(const Dense& a, Index out) {
  Dense b(a.rows - 1, a.cols);
  for (Index i = 0; i < b.rows; ++i)
    for (Index j = 0; j < a.cols; ++j) b(i, j) = a(i < out ? i : i + 1, j);
  return b;
}

// Leaves every example out in turn and fits again.
class Path final : public backend::ShiftPath {
 public:
  // examples: K of the examples in the dual, Phi in the primal, centred or not; gram: what factors are of.
  Path(backend::Side side, Dense examples, Dense gram, Dense y, bool intercept)
      : dual_(side == backend::Side::dual),
        examples_(std::move(examples)),
        gram_(std::move(gram)),
        y_(std::move(y)),
        intercept_(intercept) {}

  std::vector<double> leave_one_out(const std::vector<double>& shifts) override {
    std::vector<double> errors;
    for (const double shift : shifts) {
      double sum = 0;
      for (Index i = 0; i < y_.rows; ++i) sum += squared_error_without(i, shift);
      errors.push_back(sum / double(y_.rows * y_.cols));
    }
    return errors;
  }
  std::unique_ptr<backend::Factor> factor(double shift) override {
    return std::make_unique<Factor>(shifted(gram_, shift));
  }

 private:
  // f(x) = mean(y) + (phi(x) - mean(phi)) V, V = (G + shift)^-1 Phi^T (y - mean(y)); in the dual phi(x) is
  // the row K(x, x_j), centred, and V is alpha = (H K H + shift)^-1 (y - mean(y)).
  double squared_error_without(Index out, double shift) const {
    Dense x = without_row(examples_, out), y = without_row(y_, out), row(1, examples_.cols);
    for (Index j = 0; j < row.cols; ++j) row(0, j) = examples_(out, j);
    if (dual_) {
      x = without_row(reference::transposed(x), out);
      row = reference::transposed(without_row(reference::transposed(row), out));
    }
    std::vector<double> mean(std::size_t(y_.cols), 0.0);
    if (intercept_) {
      const std::vector<double> columns = centre(x);
      for (Index j = 0; j < row.cols; ++j) row(0, j) -= columns[std::size_t(j)];
      mean = centre(y);
    }
    if (dual_ && intercept_) {
      x = reference::transposed(x);
      centre(x);
    }
    const Dense xt = reference::transposed(x);
    const Dense fitted = reference::multiply(
        row, dual_
                 ? reference::solve(shifted(x, shift), y)
                 : reference::solve(shifted(reference::multiply(xt, x), shift), reference::multiply(xt, y)));
    double sum = 0;
    for (Index c = 0; c < y_.cols; ++c) sum += std::pow(y_(out, c) - mean[std::size_t(c)] - fitted(0, c), 2);
    return sum;
  }

  bool dual_;
  Dense examples_, gram_, y_;
  bool intercept_;
};

class Gram final : public backend::Gram {
 public:
  Gram(Dense gram, Dense examples, const backend::GramRequest& request, Matrix<double> product,
       FitCalls& calls)
      : gram_(std::move(gram)),
        examples_(std::move(examples)),
        request_(request),
        product_(std::move(product)),
        calls_(calls) {
    ++calls_.grams;
  }

  Index size() const override { return gram_.rows; }
  double trace() const override { return toy::trace(gram_); }
  MatrixView<const double> right_side() const override {
    return request_.side == backend::Side::dual ? request_.targets : product_.view();
  }
  void multiply(MatrixView<const double> in, MatrixView<double> out) const override {
    ++calls_.products;
    copy_rows(matrix(reference::multiply(gram_, dense(in))), out);
  }
  std::unique_ptr<backend::Gram> copy() const override {
    return std::make_unique<Gram>(gram_, examples_, request_, Matrix<double>(), calls_);
  }
  std::unique_ptr<backend::Factor> factor(double shift) override {
    ++calls_.factors;
    Dense a = shifted(gram_, shift);
    if (!cholesky(a)) return nullptr;
    return std::make_unique<Factor>(std::move(a));
  }
  std::optional<Matrix<double>> minimum_norm() override { return std::nullopt; }  // has no eigenvalues
  std::unique_ptr<backend::ShiftPath> shift_path() override {
    ++calls_.paths;
    return std::make_unique<Path>(request_.side, examples_, gram_, dense(request_.targets),
                                  request_.intercept);
  }

 private:
  Dense gram_, examples_;
  backend::GramRequest request_;
  Matrix<double> product_;  // Phi^T Y
  FitCalls& calls_;
};

// Phi as a matrix of doubles.
class Design : public backend::Design {
 public:
  // heads: how many columns in a row belong to one, 0 for centres.
  Design(Dense phi, bool centred, Index head_columns, FitCalls& calls)
      : phi_(std::move(phi)), head_columns_(head_columns), calls_(calls) {
    ++calls_.designs;
    means_.assign(std::size_t(phi_.cols), 0.0);
    if (centred) means_ = centre(phi_);
  }

  Index rows() const override { return phi_.rows; }
  Index columns() const override { return phi_.cols; }
  Precision precision() const override { return Precision::f64; }
  const std::vector<double>& means() override { return means_; }
  void hold() override {}

  Matrix<double> forward(MatrixView<const double> v, std::string_view) override {
    return product(phi_, dense(v));
  }
  Matrix<double> adjoint(MatrixView<const double> r, std::string_view) override {
    return product(reference::transposed(phi_), dense(r));
  }
  Matrix<double> outer_product(MatrixView<const double> r, std::string_view phase) override {
    return forward(adjoint(r, phase), phase);
  }
  Matrix<double> inner_product(MatrixView<const double> v, std::string_view phase,
                               const std::vector<double>& weights) override {
    Matrix<double> fitted = forward(v, phase);
    for (Index i = 0; !weights.empty() && i < rows(); ++i)
      for (Index c = 0; c < v.cols; ++c) fitted(i, c) *= weights[std::size_t(i)];
    return adjoint(fitted, phase);
  }
  double mean_square_row() override { return std::pow(frobenius(phi_), 2) / double(rows()); }
  backend::Residuals check(MatrixView<const double> values, MatrixView<const double> targets) override {
    const Dense residual =
        reference::add(reference::multiply(phi_, dense(values)), reference::scaled(dense(targets), -1));
    return {std::pow(frobenius(residual), 2), adjoint(matrix(residual), ""), adjoint(targets, "")};
  }

  std::unique_ptr<backend::Gram> gram(const backend::GramRequest& request) override {
    const Dense kernel = reference::multiply(phi_, reference::transposed(phi_));
    const bool dual = request.side == backend::Side::dual;
    return std::make_unique<Gram>(
        dual ? kernel : covariance(), dual ? kernel : phi_, request,
        dual || request.targets.cols == 0 ? Matrix<double>() : adjoint(request.targets, ""), calls_);
  }
  std::unique_ptr<backend::Factor> preconditioner(double shift) override {
    return std::make_unique<Factor>(shifted(covariance(), shift));
  }

  std::vector<Index> head_of_column() const override {
    std::vector<Index> out;
    for (Index j = 0; j < columns(); ++j) out.push_back((columns() - 1 - j) / head_columns_);
    return out;
  }
  Matrix<double> stored(MatrixView<const double> values) const override {
    Matrix<double> out(values.rows, values.cols);
    for (Index i = 0; i < values.rows; ++i)
      std::copy_n(values.row(i), values.cols, out.view().row(values.rows - 1 - i));
    return out;
  }
  std::vector<double> stored_means() override { return {means_.rbegin(), means_.rend()}; }

 private:
  Matrix<double> product(const Dense& a, const Dense& b) {
    ++calls_.products;
    return matrix(reference::multiply(a, b));
  }
  Dense covariance() const { return reference::multiply(reference::transposed(phi_), phi_); }

  Dense phi_;
  Index head_columns_;
  std::vector<double> means_;
  FitCalls& calls_;
};

}  // namespace headlens::toy

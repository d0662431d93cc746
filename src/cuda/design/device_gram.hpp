// Gram matrices on the device, and what is solved with them (backend/gram.hpp). One matrix is
// factored at every penalty that is tried: on a device some Cholesky factorisations take less time than the
// reduction to a band that the processor makes.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.hpp"
#include "cuda/design/symmetric.hpp"

namespace headlens::cuda {

// What leave-one-out reads of a design.
class DeviceDesign : public backend::Design {
 public:
  // to (p, count) by columns: the rows of these examples, which are in increasing order.
  virtual void gather(const std::vector<Index>& examples, float* to) = 0;
  virtual void gather(const std::vector<Index>& examples, double* to) = 0;
};

// What a Gram matrix belongs to.
struct Equations {
  backend::Side side = backend::Side::dual;
  bool intercept = true;
  MatrixView<const double> targets = {};  // Y, (n, q)
  std::vector<Index> left_out = {};       // examples whose d_i are computed; none: of all
  Matrix<double> product = {};            // primal: Phi^T Y
  DeviceDesign* design = nullptr;         // primal
  double epsilon = 0;                     // the rounding of the features

  bool dual() const { return side == backend::Side::dual; }
  MatrixView<const double> right_side() const { return dual() ? targets : product.view(); }
};

template <class T>
class DeviceGram final : public backend::Gram {
 public:
  DeviceGram(Symmetric<T> matrix, std::shared_ptr<const Equations> equations, const backend::Context& context)
      : matrix_(std::move(matrix)), equations_(std::move(equations)), context_(context) {}

  Index size() const override { return matrix_.size(); }
  double trace() const override { return matrix_.trace(); }
  MatrixView<const double> right_side() const override { return equations_->right_side(); }
  void multiply(MatrixView<const double> in, MatrixView<double> out) const override;
  std::unique_ptr<backend::Gram> copy() const override {
    return std::make_unique<DeviceGram>(matrix_.clone(), equations_, context_);
  }
  std::unique_ptr<backend::Factor> factor(double shift) override;
  std::optional<Matrix<double>> minimum_norm() override;
  std::string_view path_method() const override { return "Cholesky at every penalty"; }
  std::unique_ptr<backend::ShiftPath> shift_path() override;

 private:
  Symmetric<T> matrix_;
  std::shared_ptr<const Equations> equations_;
  backend::Context context_;
};

}  // namespace headlens::cuda

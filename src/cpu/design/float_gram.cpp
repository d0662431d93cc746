#include "cpu/design/float_gram.hpp"

#include "cpu/design/design_matrix.hpp"
#include "cpu/design/float_path.hpp"
#include "headlens/error.hpp"
#include "linalg/cholesky.hpp"

namespace headlens::cpu {
namespace {

class FloatFactor final : public backend::Factor {
 public:
  FloatFactor(Matrix<float> gram, std::vector<Index> unknowns, float shift, int threads)
      : factor_(std::move(gram)), unknowns_(std::move(unknowns)), threads_(threads) {
    for (Index i = 0; i < factor_.rows(); ++i) factor_(i, i) += shift;
    ok_ = cholesky(factor_, threads).ok();
  }

  bool ok() const { return ok_; }
  void solve(MatrixView<const double> in, MatrixView<double> out) override {
    Matrix<float> rows = pick_transposed(in, unknowns_);
    for (Index j = 0; j < rows.rows(); ++j)
      cholesky_solve(factor_, {rows.view().row(j), rows.cols(), 1}, threads_);
    put_transposed<double>(rows, unknowns_, out);
  }

 private:
  Matrix<float> factor_;
  std::vector<Index> unknowns_;
  int threads_;
  bool ok_;
};

class FloatGram final : public backend::Gram {
 public:
  FloatGram(HostDesign& design, FloatSystem system, const backend::GramRequest& request)
      : design_(design), system_(std::move(system)), request_(request) {}

  Index size() const override { return system_.gram.rows(); }
  double trace() const override {
    double sum = 0;
    for (Index i = 0; i < size(); ++i) sum += static_cast<double>(system_.gram(i, i));
    return sum;
  }
  std::unique_ptr<backend::Factor> factor(double shift) override {
    auto out = std::make_unique<FloatFactor>(std::move(system_.gram), std::move(system_.unknowns),
                                             static_cast<float>(shift), design_.threads());
    if (!out->ok()) return nullptr;
    return out;
  }
  std::unique_ptr<backend::ShiftPath> shift_path() override {
    const double sum = trace();
    return make_float_path(design_, std::move(system_), request_, sum);
  }

  MatrixView<const double> right_side() const override { refuse(); }
  void multiply(MatrixView<const double>, MatrixView<double>) const override { refuse(); }
  std::unique_ptr<backend::Gram> copy() const override { refuse(); }
  std::optional<Matrix<double>> minimum_norm() override { refuse(); }

 private:
  [[noreturn]] static void refuse() {
    throw Bug("gram: a matrix of few digits was asked for exact products");
  }

  HostDesign& design_;
  FloatSystem system_;
  backend::GramRequest request_;
};

}  // namespace

template <class T>
std::unique_ptr<backend::Gram> make_float_gram(DesignMatrix<T>& design, const backend::GramRequest& request) {
  return std::make_unique<FloatGram>(design, make_float_system(design, request), request);
}

template std::unique_ptr<backend::Gram> make_float_gram(DesignMatrix<float>&, const backend::GramRequest&);
template std::unique_ptr<backend::Gram> make_float_gram(DesignMatrix<double>&, const backend::GramRequest&);

}  // namespace headlens::cpu

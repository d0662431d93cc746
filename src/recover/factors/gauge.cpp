#include "recover/factors/gauge.hpp"

#include <algorithm>
#include <utility>

#include "linalg/blas.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::recovery {
namespace {

class FixedModel final : public backend::LinearModel {
 public:
  FixedModel(std::unique_ptr<backend::LinearModel> model, const GaugeFixed::Part& part, double curvature,
             const Factors* factors)
      : model_(std::move(model)), part_(part), curvature_(curvature), factors_(factors) {}

  void move_to(const backend::LayerPoint& point) override { model_->move_to(point); }
  void refresh_preconditioner(const backend::LayerPoint& point) override {
    model_->refresh_preconditioner(point);
  }
  void shift_preconditioner(double mu) override { model_->shift_preconditioner(mu); }
  backend::Step solve(const Matrix<double>& gradient, double mu, double tolerance, int cap,
                      Precision precision, const std::function<bool()>& expired) override {
    return model_->solve(gradient, mu, tolerance, cap, precision, expired);
  }
  Matrix<double> precondition(const Matrix<double>& a) const override { return model_->precondition(a); }
  void derivative(MatrixView<const double> dp, MatrixView<double> z) override { model_->derivative(dp, z); }
  void project(MatrixView<double> z) override { model_->project(z); }
  void adjoint(MatrixView<const double> z, MatrixView<double> dp) override { model_->adjoint(z, dp); }
  void normal_product(MatrixView<const double> a, MatrixView<double> out) override {
    model_->normal_product(a, out);
    const Matrix<double> fixed = part_(a);
    for (Index i = 0; i < out.rows; ++i)
      for (Index j = 0; j < out.cols; ++j) out(i, j) += curvature_ * fixed(i, j);
  }
  Matrix<double> best_w(MatrixView<const double> z) override { return model_->best_w(z); }
  std::unique_ptr<backend::Directions> directions() override {
    std::unique_ptr<backend::Directions> own;
    if (factors_) own = model_->directions({factors_->ranks, factors_->values, curvature_});
    return own ? std::move(own) : LinearModel::directions();
  }

 private:
  std::unique_ptr<backend::LinearModel> model_;
  const GaugeFixed::Part& part_;
  double curvature_;
  const Factors* factors_;  // where the part is that of factors
};

}  // namespace

GaugeFixed::GaugeFixed(const backend::LayerProblem& problem, const Factors& factors, double curvature)
    : problem_(problem),
      part_([&factors](MatrixView<const double> a) { return gauge_part(factors, a); }),
      curvature_(curvature),
      factors_(&factors) {}

std::unique_ptr<backend::LinearModel> GaugeFixed::make_linear_model() const {
  return std::make_unique<FixedModel>(problem_.make_linear_model(), part_, curvature_, factors_);
}

Matrix<double> gauge_part(const Factors& factors, MatrixView<const double> a) {
  Matrix<double> out = Matrix<double>::zeros(a.rows, a.cols);
  const std::vector<backend::HeadColumns> columns = backend::columns_of(factors.ranks);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const backend::HeadColumns& c = columns[i];
    const HeadFactors h = head_of(factors, static_cast<Index>(i));
    const Index d = a.rows, r = c.logits;
    const MatrixView<const double> dq = a.block(0, c.q, d, r), dk = a.block(0, c.k, d, r),
                                   dv = a.block(0, c.v, d, c.values);
    Matrix<double> along(r, r), along_v(c.values, c.values);
    gemm(Trans::yes, Trans::no, 1.0, h.q, dq, 0.0, along.view());
    gemm(Trans::yes, Trans::no, -1.0, dk, h.k, 1.0, along.view());
    std::vector<double> sizes;
    for (Index j = 0; j < r; ++j) {
      double squares = 0;
      for (Index q = 0; q < d; ++q) squares += h.q(q, j) * h.q(q, j);
      sizes.push_back(squares);
    }
    for (Index j = 0; j < r; ++j)
      for (Index l = 0; l < r; ++l)
        along(j, l) /=
            std::max(sizes[static_cast<std::size_t>(j)] + sizes[static_cast<std::size_t>(l)], 1e-300);
    gemm(Trans::yes, Trans::no, 1.0, h.v, dv, 0.0, along_v.view());
    gemm(Trans::no, Trans::no, 1.0, h.q, std::as_const(along).view(), 0.0, out.view().block(0, c.q, d, r));
    gemm(Trans::no, Trans::yes, -1.0, h.k, std::as_const(along).view(), 0.0, out.view().block(0, c.k, d, r));
    gemm(Trans::no, Trans::no, 1.0, h.v, std::as_const(along_v).view(), 0.0,
         out.view().block(0, c.v, d, c.values));
  }
  return out;
}

}  // namespace headlens::recovery

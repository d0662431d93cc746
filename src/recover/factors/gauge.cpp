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

namespace {

// One group of heads: where its columns are, and those of all its queries.
struct Group {
  std::vector<Index> q;  // first columns of the queries of its heads
  backend::HeadColumns at;
};

std::vector<Group> groups_of(const backend::HeadRanks& ranks) {
  std::vector<Group> out;
  const std::vector<backend::HeadColumns> columns = backend::columns_of(ranks);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (ranks.leads(static_cast<Index>(i))) out.push_back({{}, columns[i]});
    out.back().q.push_back(columns[i].q);
  }
  return out;
}

// A of the columns first .. first + r of Q and K that no position turns.
void add_mixed(MatrixView<const double> z, MatrixView<const double> a, const Group& group, Index first,
               Index r, MatrixView<double> out) {
  const Index d = a.rows;
  const auto columns = [&](auto view, Index from) { return view.block(0, from + first, d, r); };
  Matrix<double> along = Matrix<double>::zeros(r, r);
  std::vector<double> sizes(static_cast<std::size_t>(r));
  for (const Index q : group.q) {
    gemm(Trans::yes, Trans::no, 1.0, columns(z, q), columns(a, q), 1.0, along.view());
    for (Index j = 0; j < r; ++j)
      for (Index i = 0; i < d; ++i)
        sizes[static_cast<std::size_t>(j)] += columns(z, q)(i, j) * columns(z, q)(i, j);
  }
  gemm(Trans::yes, Trans::no, -1.0, columns(a, group.at.k), columns(z, group.at.k), 1.0, along.view());
  for (Index j = 0; j < r; ++j)
    for (Index l = 0; l < r; ++l)
      along(j, l) /=
          std::max(sizes[static_cast<std::size_t>(j)] + sizes[static_cast<std::size_t>(l)], 1e-300);
  for (const Index q : group.q)
    gemm(Trans::no, Trans::no, 1.0, columns(z, q), std::as_const(along).view(), 0.0, columns(out, q));
  gemm(Trans::no, Trans::yes, -1.0, columns(z, group.at.k), std::as_const(along).view(), 0.0,
       columns(out, group.at.k));
}

// The complex number of one pair of columns: (q, -k) scales, (J q, J k) turns, J (a, b) = (-b, a).
void add_pair(MatrixView<const double> z, MatrixView<const double> a, const Group& group,
              std::pair<Index, Index> pair, MatrixView<double> out) {
  std::vector<Index> parts = group.q;
  parts.push_back(group.at.k);
  double squares = 0, scale = 0, turn = 0;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const Index one = parts[part] + pair.first, other = parts[part] + pair.second;
    const double sign = part < group.q.size() ? 1 : -1;
    for (Index i = 0; i < a.rows; ++i) {
      squares += z(i, one) * z(i, one) + z(i, other) * z(i, other);
      scale += sign * (z(i, one) * a(i, one) + z(i, other) * a(i, other));
      turn += z(i, one) * a(i, other) - z(i, other) * a(i, one);
    }
  }
  scale /= std::max(squares, 1e-300);
  turn /= std::max(squares, 1e-300);
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const Index one = parts[part] + pair.first, other = parts[part] + pair.second;
    const double along = part < group.q.size() ? scale : -scale;
    for (Index i = 0; i < a.rows; ++i) {
      out(i, one) = along * z(i, one) - turn * z(i, other);
      out(i, other) = along * z(i, other) + turn * z(i, one);
    }
  }
}

}  // namespace

Matrix<double> gauge_part(const Factors& factors, MatrixView<const double> a) {
  Matrix<double> out = Matrix<double>::zeros(a.rows, a.cols);
  const MatrixView<const double> z = factors.values.parameters.view();
  for (const Group& group : groups_of(factors.ranks)) {
    const backend::HeadColumns& c = group.at;
    const std::optional<Rotary>& rotary = factors.ranks.rotary;
    const Index pairs = rotary ? rotary->pairs(c.logits) : 0;
    for (Index j = 0; j < pairs; ++j) add_pair(z, a, group, rotary->columns(j, c.logits), out.view());
    if (2 * pairs < c.logits) add_mixed(z, a, group, 2 * pairs, c.logits - 2 * pairs, out.view());
    const auto values = [&](auto view) { return view.block(0, c.v, a.rows, c.values); };
    const Matrix<double> along = product(Trans::yes, Trans::no, values(z), values(a));
    gemm(Trans::no, Trans::no, 1.0, values(z), along.view(), 0.0, values(out.view()));
  }
  return out;
}

}  // namespace headlens::recovery

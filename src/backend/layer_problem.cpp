// What a linear model does by its other functions, on the host, unless a machine knows better.
#include "backend/layer_problem.hpp"

#include <utility>

#include "linalg/vector_space.hpp"

namespace headlens::backend {
namespace {

struct HostDirection final : Direction {
  explicit HostDirection(Matrix<double> v) : values(std::move(v)) {}
  Matrix<double> values;
};

class HostDirections final : public Directions {
 public:
  explicit HostDirections(LinearModel& model) : model_(model) {}

  Held hold(const Matrix<double>& a) override {
    rows_ = a.rows();
    cols_ = a.cols();
    return std::make_unique<HostDirection>(copy_of(a));
  }
  Matrix<double> fetch(const Direction& a) override { return copy_of(of(a)); }
  std::vector<double> inner(const Several& a, const Direction& b) override {
    std::vector<double> out;
    for (const Direction* one : a) out.push_back(inner_product(of(*one), of(b)));
    return out;
  }
  void add(const std::vector<double>& factors, const Several& from, Direction& to) override {
    for (std::size_t i = 0; i < from.size(); ++i) headlens::add(factors[i], of(*from[i]), of(to));
  }
  void scale(double factor, Direction& a) override {
    for (Index i = 0; i < rows_ * cols_; ++i) of(a).data()[i] *= factor;
  }
  Held zero() override { return std::make_unique<HostDirection>(Matrix<double>::zeros(rows_, cols_)); }
  Held normal_product(const Direction& a) override {
    Matrix<double> out(rows_, cols_);
    model_.normal_product(of(a), out);
    return std::make_unique<HostDirection>(std::move(out));
  }
  Held precondition(const Direction& a) override {
    return std::make_unique<HostDirection>(model_.precondition(of(a)));
  }

 private:
  static Matrix<double>& of(Direction& a) { return static_cast<HostDirection&>(a).values; }
  static const Matrix<double>& of(const Direction& a) { return static_cast<const HostDirection&>(a).values; }

  LinearModel& model_;
  Index rows_ = 0, cols_ = 0;  // of all that were held
};

}  // namespace

void LinearModel::respond(MatrixView<const double> nu, MatrixView<double> dp) {
  Matrix<double> projected = copy_of<double>(nu);
  project(projected);
  adjoint(projected, dp);
}

Matrix<double> LinearModel::respond_in_w(MatrixView<const double> nu, MatrixView<const double> dp) {
  Matrix<double> left = copy_of<double>(nu), moved(nu.rows, nu.cols);
  derivative(dp, moved);
  headlens::add(-1.0, moved, left);
  return best_w(left);
}

std::unique_ptr<Directions> LinearModel::directions() { return std::make_unique<HostDirections>(*this); }

}  // namespace headlens::backend

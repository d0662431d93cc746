#include "recover/certificate/weakest_direction.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "linalg/eigen.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::recovery {
namespace {

constexpr int kMostSteps = 40, kWindow = 4;
constexpr double kSettled = 0.02;  // relative change of the eigenvalue over a window

struct Vector {
  Matrix<double> a, ha;  // a and H a
};
using Vectors = std::vector<Vector>;

void scale(double factor, Vector& v) {
  for (Matrix<double>* part : {&v.a, &v.ha})
    for (Index i = 0; i < part->rows() * part->cols(); ++i) part->data()[i] *= factor;
}

// Adds v to an orthonormal basis, unless nothing of it is new.
void extend(Vectors& basis, Vector v) {
  const double before = std::sqrt(squared_norm(v.a));
  if (!(before > 0)) return;
  scale(1 / before, v);
  for (int pass = 0; pass < 2; ++pass)  // twice is enough
    for (const Vector& other : basis) {
      const double overlap = inner_product(other.a, v.a);
      add(-overlap, other.a, v.a);
      add(-overlap, other.ha, v.ha);
    }
  const double left = std::sqrt(squared_norm(v.a));
  if (!(left > 1e-8)) return;
  scale(1 / left, v);
  basis.push_back(std::move(v));
}

// sum_i c[i] basis[i] over i >= from
Vector combination(const Vectors& basis, const double* c, std::size_t from) {
  const Matrix<double>& shape = basis[0].a;
  Vector out{Matrix<double>::zeros(shape.rows(), shape.cols()),
             Matrix<double>::zeros(shape.rows(), shape.cols())};
  for (std::size_t i = from; i < basis.size(); ++i) {
    add(c[i], basis[i].a, out.a);
    add(c[i], basis[i].ha, out.ha);
  }
  return out;
}

struct Ritz {
  Vectors lowest, steps;  // the lowest Ritz vectors, and their parts outside the first vectors of the basis
};

Ritz rayleigh_ritz(const Vectors& basis, std::size_t wanted) {
  const auto size = static_cast<Index>(basis.size());
  Matrix<double> projected(size, size);
  for (Index i = 0; i < size; ++i)
    for (Index j = 0; j <= i; ++j)
      projected(i, j) = inner_product(basis[std::size_t(i)].a, basis[std::size_t(j)].ha);
  const SymmetricEigen eigen = symmetric_eigen(projected.view());
  Ritz out;
  if (!eigen.ok()) return out;
  for (std::size_t r = 0; r < std::min(wanted, basis.size()); ++r) {
    const double* c = eigen.vectors.view().row(static_cast<Index>(r));
    out.lowest.push_back(combination(basis, c, 0));
    out.steps.push_back(combination(basis, c, wanted));
  }
  return out;
}

// The value of every vector, and the vector.
void describe(const Vectors& lowest, WeakestDirection& out) {
  out.values.clear();
  out.directions.clear();
  for (const Vector& v : lowest) {
    out.values.push_back(std::max(0.0, inner_product(v.a, v.ha)));
    out.directions.push_back(copy_of(v.a));
  }
}

}  // namespace

std::vector<double> head_shares(const Matrix<double>& direction) {
  std::vector<double> out;
  const Index d = direction.rows();
  for (Index i = 0; i < direction.cols() / d; ++i)
    out.push_back(squared_norm(direction.view().block(0, i * d, d, d)));
  return out;
}

WeakestDirection weakest_direction(const backend::LayerProblem& problem, const backend::LayerPoint& point,
                                   const std::vector<Matrix<double>>& starts,
                                   const std::function<bool()>& stop) {
  const std::unique_ptr<backend::LinearModel> model = problem.make_linear_model();
  model->move_to(point);
  const auto with_image = [&](Matrix<double> a) {
    Vector v{std::move(a), Matrix<double>(point.parameters.rows(), point.parameters.cols())};
    model->normal_product(v.a, v.ha);
    return v;
  };
  model->refresh_preconditioner(point);
  model->shift_preconditioner(1e-14 * problem.y_squares() / problem.unknowns());

  WeakestDirection out;
  Vectors basis;
  for (const Matrix<double>& start : starts) extend(basis, with_image(copy_of(start)));
  if (basis.empty()) return out;
  const std::size_t block = basis.size();
  Ritz ritz = rayleigh_ritz(basis, block);
  std::vector<double> values;
  while (!ritz.lowest.empty()) {
    values.push_back(inner_product(ritz.lowest[0].a, ritz.lowest[0].ha));
    describe(ritz.lowest, out);
    out.settled =
        values.size() > kWindow && values[values.size() - 1 - kWindow] < (1 + kSettled) * values.back();
    if (out.settled || out.steps == kMostSteps || stop()) break;
    basis.clear();
    std::vector<Matrix<double>> residuals;
    for (Vector& v : ritz.lowest) {
      Matrix<double> residual = copy_of(v.ha);
      add(-inner_product(v.a, v.ha), v.a, residual);
      residuals.push_back(model->precondition(residual));
      extend(basis, std::move(v));
    }
    for (Matrix<double>& residual : residuals) extend(basis, with_image(std::move(residual)));
    for (Vector& step : ritz.steps) extend(basis, std::move(step));
    ritz = rayleigh_ritz(basis, block);
    ++out.steps;
  }
  out.products = (out.steps + 1) * static_cast<int>(block);
  const double value = values.empty() ? 0 : std::max(0.0, values.back());
  out.response = std::sqrt(value * squared_norm(point.parameters) / std::max(problem.y_squares(), 1e-300));
  return out;
}

}  // namespace headlens::recovery

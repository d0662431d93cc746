#include "recover/certificate/weakest_direction.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "backend/directions.hpp"
#include "linalg/eigen.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::recovery {
namespace {

constexpr int kMostSteps = 40, kWindow = 4;
constexpr double kSettled = 0.02;  // relative change of the eigenvalue over a window

using backend::Directions;

struct Vector {
  Directions::Held a, ha;  // a and H a
};
using Vectors = std::vector<Vector>;

double squares(Directions& space, const Vector& v) { return space.inner(*v.a, *v.a); }

void scale(Directions& space, double factor, Vector& v) {
  space.scale(factor, *v.a);
  space.scale(factor, *v.ha);
}

// The directions of basis[from], basis[from + 1], .., and their images.
struct Parts {
  Directions::Several a, ha;
};
Parts parts_of(const Vectors& basis, std::size_t from) {
  Parts out;
  for (std::size_t i = from; i < basis.size(); ++i) {
    out.a.push_back(basis[i].a.get());
    out.ha.push_back(basis[i].ha.get());
  }
  return out;
}

// Adds v to an orthonormal basis, unless nothing of it is new.
void extend(Directions& space, Vectors& basis, Vector v) {
  const double before = std::sqrt(squares(space, v));
  if (!(before > 0)) return;
  scale(space, 1 / before, v);
  const Parts others = parts_of(basis, 0);
  for (int pass = 0; pass < 2; ++pass) {  // twice is enough
    std::vector<double> minus = space.inner(others.a, *v.a);
    for (double& overlap : minus) overlap = -overlap;
    space.add(minus, others.a, *v.a);
    space.add(minus, others.ha, *v.ha);
  }
  const double left = std::sqrt(squares(space, v));
  if (!(left > 1e-8)) return;
  scale(space, 1 / left, v);
  basis.push_back(std::move(v));
}

// sum_i c[i] basis[i] over i >= from
Vector combination(Directions& space, const Vectors& basis, const double* c, std::size_t from) {
  Vector out{space.zero(), space.zero()};
  const Parts parts = parts_of(basis, from);
  const std::vector<double> factors(c + from, c + basis.size());
  space.add(factors, parts.a, *out.a);
  space.add(factors, parts.ha, *out.ha);
  return out;
}

struct Ritz {
  Vectors lowest, steps;  // the lowest Ritz vectors, and their parts outside the first vectors of the basis
};

Ritz rayleigh_ritz(Directions& space, const Vectors& basis, std::size_t wanted) {
  const auto size = static_cast<Index>(basis.size());
  Matrix<double> projected(size, size);
  const Parts parts = parts_of(basis, 0);
  for (Index j = 0; j < size; ++j) {
    const std::vector<double> column = space.inner(parts.a, *parts.ha[static_cast<std::size_t>(j)]);
    for (Index i = 0; i < size; ++i) projected(i, j) = column[static_cast<std::size_t>(i)];
  }
  const SymmetricEigen eigen = symmetric_eigen(projected.view());
  Ritz out;
  if (!eigen.ok()) return out;
  for (std::size_t r = 0; r < std::min(wanted, basis.size()); ++r) {
    const double* c = eigen.vectors.view().row(static_cast<Index>(r));
    out.lowest.push_back(combination(space, basis, c, 0));
    out.steps.push_back(combination(space, basis, c, wanted));
  }
  return out;
}

// The value of every vector, and the vector.
void describe(Directions& space, const Vectors& lowest, WeakestDirection& out) {
  for (const Vector& v : lowest) {
    out.values.push_back(std::max(0.0, space.inner(*v.a, *v.ha)));
    out.directions.push_back(space.fetch(*v.a));
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
  model->refresh_preconditioner(point);
  model->shift_preconditioner(1e-14 * problem.y_squares() / problem.unknowns());
  const std::unique_ptr<Directions> space = model->directions();
  const auto with_image = [&](Directions::Held a) {
    Directions::Held image = space->normal_product(*a);
    return Vector{std::move(a), std::move(image)};
  };

  WeakestDirection out;
  Vectors basis;
  for (const Matrix<double>& start : starts) extend(*space, basis, with_image(space->hold(start)));
  if (basis.empty()) return out;
  const std::size_t block = basis.size();
  Ritz ritz = rayleigh_ritz(*space, basis, block);
  std::vector<double> values;
  while (!ritz.lowest.empty()) {
    values.push_back(space->inner(*ritz.lowest[0].a, *ritz.lowest[0].ha));
    out.settled =
        values.size() > kWindow && values[values.size() - 1 - kWindow] < (1 + kSettled) * values.back();
    if (out.settled || out.steps == kMostSteps || stop()) break;
    basis.clear();
    std::vector<Directions::Held> residuals;
    for (Vector& v : ritz.lowest) {
      Directions::Held residual = space->zero();
      space->add(1, *v.ha, *residual);
      space->add(-space->inner(*v.a, *v.ha), *v.a, *residual);
      residuals.push_back(space->precondition(*residual));
      extend(*space, basis, std::move(v));
    }
    for (Directions::Held& residual : residuals) extend(*space, basis, with_image(std::move(residual)));
    for (Vector& step : ritz.steps) extend(*space, basis, std::move(step));
    ritz = rayleigh_ritz(*space, basis, block);
    ++out.steps;
  }
  describe(*space, ritz.lowest, out);
  out.products = (out.steps + 1) * static_cast<int>(block);
  const double value = values.empty() ? 0 : std::max(0.0, values.back());
  out.response = std::sqrt(value * squared_norm(point.parameters) / std::max(problem.y_squares(), 1e-300));
  return out;
}

}  // namespace headlens::recovery

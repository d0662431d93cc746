#include <algorithm>
#include <cmath>
#include <utility>

#include "base/parallel.hpp"
#include "base/random.hpp"
#include "linalg/eigen.hpp"
#include "linalg/gram.hpp"
#include "recover/sculpt/span.hpp"

namespace headlens::recovery::sculpting {
namespace {

using Vector = std::vector<double>;

constexpr int kRounds = 8;               // of D/2 rays
constexpr double kUnmet = 1e-3;          // of the mean eigenvalue: stands for "no face met here yet"
constexpr double kFarthest = 1e6;        // a ray that is still inside there never leaves
constexpr double kRayPrecision = 1e-10;  // relative
constexpr double kDifference = 1e-5;     // of |u|: far above the precision of a ray, far below a face's size

Vector random_direction(std::uint64_t seed, Index index, Index size) {
  Stream stream(seed, "ray", static_cast<std::uint64_t>(index));
  Vector u(static_cast<std::size_t>(size));
  double square = 0;
  for (double& x : u) x = stream.normal(), square += x * x;
  for (double& x : u) x /= std::sqrt(square);
  return u;
}

// Rays from one point of the body.
class Rays {
 public:
  Rays(const Body& body, Vector from) : body_(body), from_(std::move(from)), point_(from_) {}

  // How far along u the body reaches.
  double length(const Vector& u) {
    double inside = 0, outside = 1;
    while (outside < kFarthest && holds(u, outside)) inside = outside, outside *= 2;
    return bisect(u, inside, outside);
  }
  // The same, where `near` is the length along almost the same direction.
  double length_near(const Vector& u, double near) {
    double slack = 16 * kDifference;
    double inside = near * (1 - slack), outside = near * (1 + slack);
    while (!holds(u, inside)) {
      if ((slack *= 4) >= 1) return length(u);
      outside = inside, inside = near * (1 - slack);
    }
    while (outside < kFarthest && holds(u, outside)) inside = outside, outside *= 1 + (slack *= 4);
    return bisect(u, inside, outside);
  }

 private:
  double bisect(const Vector& u, double inside, double outside) {
    while (outside - inside > kRayPrecision * outside && outside > 1e-12) {
      const double middle = 0.5 * (inside + outside);
      (holds(u, middle) ? inside : outside) = middle;
    }
    return inside;
  }
  bool holds(const Vector& u, double t) {
    for (std::size_t j = 0; j < u.size(); ++j) point_[j] = from_[j] + t * u[j];
    return body_.contains(point_);
  }

  const Body& body_;
  Vector from_, point_;
};

// A^(-1/2) u, of unit length: long where A has met no face.
Vector shaped(const Vector& u, const SymmetricEigen& met) {
  if (met.values.empty()) return u;
  double mean = 0, square = 0;
  for (const double value : met.values) mean += value / static_cast<double>(met.values.size());
  Vector out(u.size(), 0.0);
  for (std::size_t i = 0; i < u.size(); ++i) {
    const double factor = u[i] / std::sqrt(std::max(met.values[i], 0.0) + kUnmet * mean);
    const double* vector = met.vectors.view().row(static_cast<Index>(i));
    for (std::size_t j = 0; j < u.size(); ++j) out[j] += factor * vector[j];
    square += factor * factor;
  }
  for (double& x : out) x /= std::sqrt(square);
  return out;
}

// The unit normal where the ray along u leaves the body: the gradient of the gauge, g(u + h e_j) - g(u) over
// h.
void write_normal(const Body& body, const Vector& inside, Vector u, double* normal) {
  Rays rays(body, inside);
  const double length = rays.length(u);
  double square = 0;
  for (std::size_t j = 0; j < u.size(); ++j) {
    const double before = u[j];
    u[j] += kDifference;
    normal[j] = length > 0 ? 1 / rays.length_near(u, length) - 1 / length : 0;
    square += normal[j] * normal[j];
    u[j] = before;
  }
  for (std::size_t j = 0; j < u.size(); ++j) normal[j] /= std::sqrt(std::max(square, 1e-300));
}

}  // namespace

LongDirections directions_by_membership(const Body& body, const Vector& inside, Index count,
                                        std::uint64_t seed, Effort& effort) {
  const Index size = body.unknowns(), rays = (size + 1) / 2;
  Matrix<double> normals = Matrix<double>::zeros(rays, size), gram = Matrix<double>::zeros(size, size);
  SymmetricEigen met;  // of the faces met so far; empty before the first round
  for (int round = 0; round < kRounds && !(round > 0 && effort.expired()); ++round) {
    effort.execution().check_cancelled();
    effort.execution().report("sculpt: membership", round, kRounds);
    parallel_for(effort.threads(), rays, [&](Index item, int) {
      if (effort.expired()) return;  // the answer is then called stalled, whatever it is
      write_normal(body, inside, shaped(random_direction(seed, round * rays + item, size), met),
                   normals.view().row(item));
    });
    add_inner(std::as_const(normals).view(), gram, effort.threads());
    met = symmetric_eigen(std::as_const(gram).view());
    if (!met.ok()) return {};
  }
  LongDirections out;
  count = std::min(count, size);
  out.vectors = Matrix<double>(count, size);
  copy_rows(met.vectors.view().block(0, 0, count, size), out.vectors);
  for (Index i = 0; i < std::min(count + 1, size); ++i)
    out.widths.push_back(1 / std::sqrt(std::max(met.values[static_cast<std::size_t>(i)], 1e-300)));
  return out;
}

}  // namespace headlens::recovery::sculpting

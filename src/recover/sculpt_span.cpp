#include "recover/sculpt_span.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/parallel.hpp"
#include "base/random.hpp"
#include "linalg/eigen.hpp"
#include "linalg/gram.hpp"

namespace headlens {
namespace {

using Vector = std::vector<double>;

constexpr double kFarthest = 1e6;      // a ray that is still inside there never leaves
constexpr double kRayPrecision = 1e-9;  // relative
constexpr double kDifference = 1e-4;   // of |u|: far above the precision of a ray, far below its curvature

Vector random_direction(std::uint64_t seed, const char* purpose, Index index, Index size) {
  Stream stream(seed, purpose, static_cast<std::uint64_t>(index));
  Vector u(static_cast<std::size_t>(size));
  double square = 0;
  for (double& x : u) x = stream.normal(), square += x * x;
  for (double& x : u) x /= std::sqrt(square);
  return u;
}

// How far the ray from `from` along u stays in the body.
class Rays {
 public:
  Rays(const Body& body, Vector from) : body_(body), from_(std::move(from)), point_(from_) {}

  double length(const Vector& u, double guess) {
    double inside = 0, outside = guess;
    for (; holds(u, outside) && outside < kFarthest; outside *= 2) inside = outside;
    if (inside == 0)
      for (inside = outside / 2; inside > 1e-12 && !holds(u, inside); inside /= 2) outside = inside;
    while (outside - inside > kRayPrecision * outside && inside > 1e-12) {
      const double middle = 0.5 * (inside + outside);
      (holds(u, middle) ? inside : outside) = middle;
    }
    return inside;
  }
  // As length, where the answer is known to be within a factor 1 +- slack of `guess`.
  double length_near(const Vector& u, double guess, double slack) {
    double inside = guess * (1 - slack), outside = guess * (1 + slack);
    if (!holds(u, inside) || holds(u, outside)) return length(u, guess);
    while (outside - inside > kRayPrecision * outside) {
      const double middle = 0.5 * (inside + outside);
      (holds(u, middle) ? inside : outside) = middle;
    }
    return 0.5 * (inside + outside);
  }
  void move(const Vector& u, double step) {
    for (std::size_t j = 0; j < u.size(); ++j) from_[j] += step * u[j];
  }
  const Vector& from() const { return from_; }

 private:
  bool holds(const Vector& u, double t) {
    for (std::size_t j = 0; j < u.size(); ++j) point_[j] = from_[j] + t * u[j];
    return body_.contains(point_);
  }

  const Body& body_;
  Vector from_, point_;
};

// The point of smallest norm lies on the surface. Midpoints of random chords lead inwards.
Vector inner_point(const Body& body, const Vector& inside, std::uint64_t seed) {
  Rays rays(body, inside);
  for (Index step = 0; step < 4 * body.unknowns(); ++step) {
    Vector u = random_direction(seed, "chord", step, body.unknowns());
    const double ahead = rays.length(u, 1);
    for (double& x : u) x = -x;
    rays.move(u, 0.5 * (rays.length(u, 1) - ahead));
  }
  return rays.from();
}

// grad g at u, from g(u + h e_j).
void write_normal(const Body& body, const Vector& centre, Vector u, double* normal) {
  Rays rays(body, centre);
  const double length = rays.length(u, 1);
  for (std::size_t j = 0; j < u.size(); ++j) {
    const double before = u[j];
    u[j] += kDifference;
    const double moved = rays.length_near(u, length, 64 * kDifference);
    u[j] = before;
    normal[j] = length > 0 && moved > 0 ? (1 / moved - 1 / length) / kDifference : 0;
  }
}

}  // namespace

LongDirections directions_by_membership(const Body& body, const Vector& inside, Index count,
                                        std::uint64_t seed, Effort& effort) {
  const Index size = body.unknowns(), points = 2 * size, batch = 32;
  count = std::min(count, size);
  const Vector centre = inner_point(body, inside, seed);
  Matrix<double> normals = Matrix<double>::zeros(points, size), gram = Matrix<double>::zeros(size, size);
  for (Index first = 0; first < points && !effort.expired(); first += batch) {
    effort.execution().check_cancelled();
    effort.execution().report("sculpt: membership", static_cast<double>(first), static_cast<double>(points));
    parallel_for(effort.threads(), std::min(batch, points - first), [&](Index item, int) {
      write_normal(body, centre, random_direction(seed, "ray", first + item, size),
                   normals.view().row(first + item));
    });
  }
  add_inner(std::as_const(normals).view(), gram, effort.threads());
  const SymmetricEigen eigen = symmetric_eigen(std::as_const(gram).view());
  LongDirections out;
  if (!eigen.ok()) return out;
  out.vectors = Matrix<double>(count, size);
  copy_rows(eigen.vectors.view().block(0, 0, count, size), out.vectors);
  for (Index i = 0; i < std::min(count + 1, size); ++i)
    out.widths.push_back(2 * std::sqrt(static_cast<double>(points) /
                                       std::max(eigen.values[static_cast<std::size_t>(i)], 1e-300)));
  return out;
}

Span find_span(Body& body, const Vector& proxy, Index heads, Index max_heads, SpanForm form,
               std::uint64_t seed, Effort& effort) {
  const Index most = std::min((heads > 0 ? heads : max_heads) - 1, body.unknowns() - 1);
  Span span;
  span.directions = form == SpanForm::membership
                        ? directions_by_membership(body, proxy, most, seed, effort)
                        : body.long_directions(most, effort);
  const Vector& widths = span.directions.widths;
  const auto gap = [&](std::size_t after) {
    const double ratio = widths[after - 1] / widths[after];
    return ratio * ratio;
  };
  std::size_t dimension = widths.empty() ? 0 : widths.size() - 1;
  if (heads == 0) {
    std::size_t best = 0;
    double largest = kSmallestGap;
    for (std::size_t after = 1; after < widths.size(); ++after)
      if (gap(after) > largest) largest = gap(after), best = after;
    dimension = best;
  }
  span.heads = static_cast<Index>(dimension) + 1;
  if (dimension > 0) span.eigengap = gap(dimension);
  return span;
}

}  // namespace headlens

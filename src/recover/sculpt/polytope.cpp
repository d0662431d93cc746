#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/random.hpp"
#include "linalg/eigen.hpp"
#include "linalg/gram.hpp"
#include "linalg/linear_program.hpp"
#include "linalg/min_norm_point.hpp"
#include "recover/sculpt/body.hpp"
#include "recover/sculpt/centre.hpp"

namespace headlens::recovery::sculpting {
namespace {

using Vector = std::vector<double>;

constexpr Index kSlabsPerUnknown = 8;
constexpr Index kMostSlabs = 1024;  // but no fewer than 4 per unknown; programs of more take minutes
constexpr double kInflation = 3;    // half-width of a slab over the tolerance of its row
constexpr double kBox = 50;         // |Theta_ab| at most, so that every program is bounded
// Programs cost about d^6, so there are fewer of them beyond d = 8.
constexpr Index kMostChords = 96, kFewestChords = 16;
constexpr Index kMostCorners = 150, kFewestCorners = 24;  // whose hull holds the point of smallest norm
constexpr double kFeasible = 1e-6;                        // Clp's own tolerance is 1e-7
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double dot(const double* a, const Vector& b) {
  double sum = 0;
  for (std::size_t j = 0; j < b.size(); ++j) sum += a[j] * b[j];
  return sum;
}

class Polytope : public Body {
 public:
  Polytope(const Cuts& all, std::uint64_t seed, const Effort& effort)
      : size_(all.unknowns()), seed_(seed), effort_(effort) {
    const Index most = std::max(4 * size_, std::min(kSlabsPerUnknown * size_, kMostSlabs));
    Cuts some = all;
    some.slabs.resize(std::min(some.slabs.size(), static_cast<std::size_t>(most)));
    Centre centre = find_centre(some, effort);
    const Cuts& cuts = centre.cuts;
    const auto slabs = static_cast<Index>(cuts.slabs.size());
    const Index halves = std::min(most / 4, static_cast<Index>(cuts.half_spaces.size()));
    outliers_ = centre.outliers;
    centre_ = std::move(centre.theta);
    rows_ = Matrix<double>(slabs + halves, size_);
    write_normals(cuts, cuts.slabs, 0, rows_.view().block(0, 0, slabs, size_));
    write_normals(cuts, cuts.half_spaces, 0, rows_.view().block(slabs, 0, halves, size_));
    Vector lower, upper;
    for (Index i = 0; i < slabs + halves; ++i) {
      const bool slab = i < slabs;
      const Cut& cut = (slab ? cuts.slabs : cuts.half_spaces)[static_cast<std::size_t>(slab ? i : i - slabs)];
      const double at = dot(rows_.view().row(i), centre_), offset = std::sqrt(cut.weight) * cut.offset;
      const double half_width = slab ? kInflation * cuts.tolerance : 0;
      // A cut that the centre misses a little is moved to hold it: the body must not be empty.
      lower.push_back(slab ? std::min(at, offset - half_width) : -kInfinity);
      upper.push_back(std::max(at, offset + half_width));
    }
    const auto columns = static_cast<std::size_t>(size_);
    bounds_ = {std::move(lower), std::move(upper)};
    program_ = std::make_unique<LinearProgram>(
        rows_, bounds_, LinearProgram::Bounds{Vector(columns, -kBox), Vector(columns, kBox)});
  }

  Index unknowns() const override { return size_; }
  Vector inner_point() const override { return centre_; }
  Index outliers() const override { return outliers_; }

  bool contains(const Vector& theta) const override {
    for (const double x : theta)
      if (std::abs(x) > kBox) return false;
    for (Index i = 0; i < rows_.rows(); ++i) {
      const double at = dot(rows_.view().row(i), theta);
      if (at < bounds_.lower[static_cast<std::size_t>(i)] - kFeasible ||
          at > bounds_.upper[static_cast<std::size_t>(i)] + kFeasible)
        return false;
    }
    return true;
  }

  // Wolfe's algorithm with a linear program that names the next corner. Every point on the way is in the
  // body.
  Vector minimum_norm_point() override {
    const Vector origin(static_cast<std::size_t>(size_), 0.0);
    if (contains(origin)) return origin;
    std::vector<Vector> corners{centre_};
    Vector point = centre_;
    MinNormPoint solver;
    const Index most = bounded(kMostCorners, kFewestCorners);
    for (Index step = 0; step < most && !effort_.must_stop(); ++step) {
      effort_.report("sculpt: smallest point", static_cast<int>(step), 1, 1);
      const double square = dot(point.data(), point);
      const Vector corner = support(point);
      if (corner.empty() || square - dot(point.data(), corner) < 1e-4 * square) break;
      corners.push_back(corner);
      const auto count = static_cast<Index>(corners.size());
      Matrix<double> gram(count, count);
      for (Index i = 0; i < count; ++i)
        for (Index j = 0; j < count; ++j)
          gram(i, j) = dot(corners[static_cast<std::size_t>(i)].data(), corners[static_cast<std::size_t>(j)]);
      const Vector& weights = solver.solve(std::as_const(gram).view());
      std::vector<Vector> used;
      std::fill(point.begin(), point.end(), 0.0);
      for (std::size_t i = 0; i < corners.size(); ++i) {
        if (weights[i] <= 0) continue;
        for (std::size_t j = 0; j < point.size(); ++j) point[j] += weights[i] * corners[i][j];
        used.push_back(std::move(corners[i]));
      }
      corners = std::move(used);
    }
    return point;
  }

  // The principal axes of chords between the two points that touch parallel supporting planes, whose normals
  // are random. A corner alone would not do: it strays in all the short directions at once.
  LongDirections long_directions(Index count) override {
    count = std::min(count, size_);
    const Index chords = std::min(2 * size_, bounded(kMostChords, kFewestChords));
    Matrix<double> ends = Matrix<double>::zeros(chords, size_), gram = Matrix<double>::zeros(size_, size_);
    for (Index r = 0; r < chords && !effort_.must_stop(); ++r) {
      effort_.report("sculpt: chords", static_cast<int>(r), 1, 1);
      const Vector along = chord(random_normal(r));
      std::copy(along.begin(), along.end(), ends.view().row(r));
    }
    add_inner(std::as_const(ends).view(), gram, 1);
    const SymmetricEigen eigen = symmetric_eigen(std::as_const(gram).view());
    LongDirections out;
    if (!eigen.ok()) return out;
    out.vectors = Matrix<double>(count, size_);
    for (Index i = 0; i < count; ++i)
      std::copy_n(eigen.vectors.view().row(size_ - 1 - i), size_, out.vectors.view().row(i));
    for (Index i = 0; i < std::min(count + 1, size_); ++i)
      out.widths.push_back(std::sqrt(std::max(0.0, eigen.values[static_cast<std::size_t>(size_ - 1 - i)]) /
                                     static_cast<double>(chords)));
    return out;
  }

  // A chord, then the chord between the planes across it, and again: each is longer than the last.
  double width() override {
    Vector along = random_normal(0);
    for (int step = 0; step < 4; ++step) along = chord(along);
    return std::sqrt(dot(along.data(), along));
  }

 private:
  Index bounded(Index most, Index fewest) const {
    return std::max(fewest, std::min(most, most * 64 / size_));
  }

  Vector random_normal(Index index) const {
    Stream stream(seed_, "chords", static_cast<std::uint64_t>(index));
    Vector normal(static_cast<std::size_t>(size_));
    for (double& x : normal) x = stream.normal();
    return normal;
  }

  // From one touching point of the planes across `normal` to the other; 0 if the solver gives up.
  Vector chord(Vector normal) {
    const Vector one = support(normal);
    for (double& x : normal) x = -x;
    Vector other = support(normal);
    if (one.empty() || other.empty()) return Vector(static_cast<std::size_t>(size_), 0.0);
    for (std::size_t j = 0; j < other.size(); ++j) other[j] -= one[j];
    return other;
  }

  // The point of the body that minimises <normal, Theta>; empty if the solver gives up.
  Vector support(const Vector& normal) {
    return program_->minimise(normal, [&] { return effort_.must_stop(); }).x;
  }

  Index size_;
  std::uint64_t seed_;
  const Effort& effort_;
  Index outliers_ = 0;
  Vector centre_;
  Matrix<double> rows_;
  LinearProgram::Bounds bounds_;
  std::unique_ptr<LinearProgram> program_;
};

}  // namespace

std::unique_ptr<Body> carve_polytope(const Cuts& cuts, std::uint64_t seed, const Effort& effort) {
  return std::make_unique<Polytope>(cuts, seed, effort);
}

}  // namespace headlens::recovery::sculpting

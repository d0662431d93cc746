#include <algorithm>
#include <cmath>
#include <utility>

#include "linalg/eigen.hpp"
#include "linalg/gram.hpp"
#include "recover/sculpt/body.hpp"
#include "recover/sculpt/centre.hpp"

namespace headlens::recovery::sculpting {
namespace {

constexpr Index kEllipsoidTile = 4096;
constexpr double kFlat = 1e-12;  // of the largest eigenvalue: a direction that no slab has seen

// Over the slabs that are no outliers, and the half-spaces that the centre misses (centre.hpp):
// sum_j w_j (<Theta, z_j> - t_j)^2 = Theta^T M Theta - 2 b^T Theta + constant, in the eigenbasis of M.
class Ellipsoid : public Body {
 public:
  Ellipsoid(const Cuts& all, const Effort& effort) : size_(all.unknowns()) {
    Centre centre = find_centre(all, effort);
    Cuts& cuts = centre.cuts;
    outliers_ = centre.outliers;
    cuts.slabs.insert(cuts.slabs.end(), cuts.half_spaces.begin(), cuts.half_spaces.begin() + centre.missed);
    Matrix<double> gram = Matrix<double>::zeros(size_, size_);
    std::vector<double> moment(static_cast<std::size_t>(size_), 0.0);
    double weight = 0;
    for (Index first = 0; first < static_cast<Index>(cuts.slabs.size()); first += kEllipsoidTile) {
      Matrix<double> normals(std::min(kEllipsoidTile, static_cast<Index>(cuts.slabs.size()) - first), size_);
      write_normals(cuts, cuts.slabs, first, normals);
      add_inner(std::as_const(normals).view(), gram, effort.threads());
      for (Index r = 0; r < normals.rows(); ++r) {
        const Cut& cut = cuts.slabs[static_cast<std::size_t>(first + r)];
        weight += cut.weight;
        for (Index j = 0; j < size_; ++j)
          moment[static_cast<std::size_t>(j)] += std::sqrt(cut.weight) * cut.offset * normals(r, j);
      }
    }
    slack_ = cuts.tolerance * cuts.tolerance * weight;
    eigen_ = symmetric_eigen(std::as_const(gram).view());
    if (!eigen_.ok()) return;
    coefficients_ = in_eigenbasis(moment);
  }

  Index outliers() const override { return outliers_; }
  Index unknowns() const override { return size_; }

  bool contains(const std::vector<double>& theta) const override {
    if (!eigen_.ok()) return false;
    const std::vector<double> at = in_eigenbasis(theta);
    double excess = 0;
    for (std::size_t i = 0; i < at.size(); ++i)
      if (seen(i)) excess += eigen_.values[i] * square(at[i] - coefficients_[i] / eigen_.values[i]);
    return excess <= slack_ * (1 + 1e-9);
  }

  // Theta(mu) = (M + mu)^-1 b, with mu such that it lies on the surface.
  std::vector<double> minimum_norm_point() override {
    if (!eigen_.ok()) return solution(0);
    const double largest = eigen_.values.back();
    double low = 1e-16 * largest, high = 1e16 * largest;
    for (int step = 0; step < 200 && high > low * (1 + 1e-12); ++step) {
      const double mu = std::sqrt(low) * std::sqrt(high);
      (excess_at(mu) <= slack_ ? low : high) = mu;
    }
    return solution(low);
  }

  std::vector<double> inner_point() const override { return solution(0); }

  LongDirections long_directions(Index count) override {
    LongDirections out;
    if (!eigen_.ok()) return out;
    count = std::min(count, size_);
    out.vectors = Matrix<double>(count, size_);
    copy_rows(eigen_.vectors.view().block(0, 0, count, size_), out.vectors);
    for (Index i = 0; i < std::min(count + 1, size_); ++i) out.widths.push_back(axis(i));
    return out;
  }

  double width() override { return eigen_.ok() ? axis(0) : 0; }

 private:
  double axis(Index i) const {
    const double value = std::max(eigen_.values[static_cast<std::size_t>(i)], kFlat * eigen_.values.back());
    return value > 0 ? 2 * std::sqrt(slack_ / value) : 0;
  }
  static double square(double x) { return x * x; }
  bool seen(std::size_t i) const { return eigen_.values[i] > kFlat * eigen_.values.back(); }

  std::vector<double> in_eigenbasis(const std::vector<double>& a) const {
    std::vector<double> out(a.size(), 0.0);
    for (Index i = 0; i < size_; ++i) {
      const double* vector = eigen_.vectors.view().row(i);
      for (Index j = 0; j < size_; ++j)
        out[static_cast<std::size_t>(i)] += vector[j] * a[static_cast<std::size_t>(j)];
    }
    return out;
  }

  // (M + mu)^-1 b
  std::vector<double> solution(double mu) const {
    std::vector<double> out(static_cast<std::size_t>(size_), 0.0);
    for (std::size_t i = 0; i < coefficients_.size(); ++i)
      if (seen(i)) {
        const double along = coefficients_[i] / (eigen_.values[i] + mu);
        const double* vector = eigen_.vectors.view().row(static_cast<Index>(i));
        for (Index j = 0; j < size_; ++j) out[static_cast<std::size_t>(j)] += along * vector[j];
      }
    return out;
  }

  double excess_at(double mu) const {
    double sum = 0;
    for (std::size_t i = 0; i < coefficients_.size(); ++i)
      if (seen(i)) sum += square(coefficients_[i] * mu / (eigen_.values[i] + mu)) / eigen_.values[i];
    return sum;
  }

  Index size_, outliers_ = 0;
  double slack_ = 0;
  SymmetricEigen eigen_;
  std::vector<double> coefficients_;  // of b
};

}  // namespace

std::unique_ptr<Body> carve_ellipsoid(const Cuts& cuts, const Effort& effort) {
  return std::make_unique<Ellipsoid>(cuts, effort);
}

}  // namespace headlens::recovery::sculpting

#include "fit/convex/newton_system.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "linalg/cg_recurrence.hpp"

namespace headlens::training {

std::vector<double> column_sums(const Block& a, std::size_t columns) {
  std::vector<double> out(columns, 0.0);
  for (std::size_t e = 0; e < a.size(); ++e) out[e % columns] += a[e];
  return out;
}

Block CountedKernel::operator()(const Block& in) {
  execution_.check_cancelled();
  Block out(in.size());
  kernel_({in.data(), rows_, columns_}, {out.data(), rows_, columns_});
  ++applications_;
  return out;
}

namespace {

// The t at which |x + t p| reaches the radius in the K norm; at most `limit`.
double step_length(const NewtonStep& at, const Block& search, const Block& kernel_search, double radius,
                   double limit) {
  if (std::isinf(radius)) return limit;
  const double pp = inner(search, kernel_search);
  const double xp = std::max(0.0, inner(at.dual, kernel_search));
  const double room = std::max(0.0, radius * radius - inner(at.dual, at.kernel_dual));
  if (limit * (2 * xp + limit * pp) <= room) return limit;
  return room / (xp + std::sqrt(xp * xp + pp * room));
}

// Conjugate gradients in the inner product <., K .>: with z = K r, <r, z> is the size of r there.
class CurvatureGradients final : public CgSystem {
 public:
  CurvatureGradients(const CurvatureSystem& system, CountedKernel& kernel, Block rhs, Block kernel_rhs)
      : system_(system),
        kernel_(kernel),
        residual_(std::move(rhs)),
        kernel_residual_(std::move(kernel_rhs)),
        search_(residual_.size(), 0.0),
        kernel_search_(residual_.size(), 0.0),
        step_{Block(residual_.size(), 0.0), Block(residual_.size(), 0.0), {}, false} {}
  NewtonStep step() && { return std::move(step_); }

  Columns sizes() override { return {inner(residual_, kernel_residual_)}; }
  bool goes_on(const Columns& sizes) override { return sizes[0] > system_.enough; }
  void turn(const Columns& beta) override {
    for (std::size_t i = 0; i < search_.size(); ++i) {
      search_[i] = residual_[i] + beta[0] * search_[i];
      kernel_search_[i] = kernel_residual_[i] + beta[0] * kernel_search_[i];
    }
  }
  Columns curvatures() override {
    image_ = system_.curvature(kernel_search_);
    add_scaled(image_, 2 * system_.ridge, search_);
    return {inner(kernel_search_, image_)};
  }
  bool move(const Columns& alpha) override;

 private:
  const CurvatureSystem& system_;
  CountedKernel& kernel_;
  Block residual_, kernel_residual_, search_, kernel_search_, image_;  // r, K r, p, K p, (C K + 2 ridge) p
  NewtonStep step_;
};

bool CurvatureGradients::move(const Columns& alpha) {
  const double best = alpha[0];
  if (!(best > 0) || !std::isfinite(best)) return false;
  const double t = step_length(step_, search_, kernel_search_, system_.radius, best);
  add_scaled(step_.dual, t, search_);
  add_scaled(step_.kernel_dual, t, kernel_search_);
  step_.at_radius = t < best;
  if (step_.at_radius) return false;
  add_scaled(residual_, -t, image_);
  kernel_residual_ = kernel_(residual_);
  return true;
}

// Projected conjugate gradients: z = M^-1 (r - 1 b^T), with b such that the columns of z sum to zero.
class ProjectedGradients final : public CgSystem {
 public:
  ProjectedGradients(const WeightedSystem& system, CountedKernel& kernel, const Block& rhs)
      : system_(system),
        kernel_(kernel),
        residual_(rhs),
        inverse_(rhs.size(), 0.0),
        image_(rhs.size()),
        search_(rhs.size(), 0.0),
        step_{Block(rhs.size(), 0.0), Block(rhs.size(), 0.0), Columns(system.columns, 0.0), false} {
    for (std::size_t e = 0; e < rhs.size(); ++e)
      if (system.weights[e] > 0) inverse_[e] = 1 / (system.weights[e] + system.kernel_scale);
    inverse_sums_ = column_sums(inverse_, system.columns);
    project();
  }
  NewtonStep step() && { return std::move(step_); }

  Columns sizes() override;
  bool goes_on(const Columns&) override { return !system_.enough(residual_); }
  void turn(const Columns& beta) override {
    for (std::size_t e = 0; e < search_.size(); ++e) search_[e] = image_[e] + beta[column(e)] * search_[e];
  }
  Columns curvatures() override;
  bool move(const Columns& alpha) override;

 private:
  std::size_t column(std::size_t e) const { return e % system_.columns; }
  double curved(std::size_t e) const { return kernel_search_[e] + system_.weights[e] * search_[e]; }
  void project();

  const WeightedSystem& system_;
  CountedKernel& kernel_;
  Block residual_, inverse_, image_, search_, kernel_search_;  // r - 1 b^T, M^-1, z, p, K p
  Columns inverse_sums_;
  NewtonStep step_;
};

// Moves b so that z = M^-1 (r - 1 b^T) sums to zero.
void ProjectedGradients::project() {
  Columns shift(system_.columns, 0.0);
  if (system_.intercept) {
    for (std::size_t e = 0; e < residual_.size(); ++e) shift[column(e)] += inverse_[e] * residual_[e];
    for (std::size_t c = 0; c < shift.size(); ++c)
      shift[c] = inverse_sums_[c] > 0 ? shift[c] / inverse_sums_[c] : 0;
  }
  for (std::size_t c = 0; c < shift.size(); ++c) step_.intercept[c] += shift[c];
  for (std::size_t e = 0; e < residual_.size(); ++e) {
    residual_[e] -= shift[column(e)];
    image_[e] = inverse_[e] * residual_[e];
  }
}

CgSystem::Columns ProjectedGradients::sizes() {
  Columns out(system_.columns, 0.0);
  for (std::size_t e = 0; e < image_.size(); ++e) out[column(e)] += residual_[e] * image_[e];
  return out;
}

CgSystem::Columns ProjectedGradients::curvatures() {
  kernel_search_ = kernel_(search_);
  Columns out(system_.columns, 0.0);
  for (std::size_t e = 0; e < search_.size(); ++e) out[column(e)] += search_[e] * curved(e);
  return out;
}

bool ProjectedGradients::move(const Columns& alpha) {
  for (std::size_t e = 0; e < search_.size(); ++e) {
    const double t = alpha[column(e)];
    step_.dual[e] += t * search_[e];
    step_.kernel_dual[e] += t * kernel_search_[e];
    residual_[e] -= t * curved(e);
  }
  project();
  return true;
}

}  // namespace

NewtonStep solve(const CurvatureSystem& system, CountedKernel& kernel, Block rhs, Block kernel_rhs) {
  CurvatureGradients gradients(system, kernel, std::move(rhs), std::move(kernel_rhs));
  iterate(gradients, system.max_iterations);
  return std::move(gradients).step();
}

NewtonStep solve(const WeightedSystem& system, CountedKernel& kernel, const Block& rhs) {
  ProjectedGradients gradients(system, kernel, rhs);
  iterate(gradients, system.max_iterations);
  return std::move(gradients).step();
}

}  // namespace headlens::training

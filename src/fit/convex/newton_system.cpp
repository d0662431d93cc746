#include "fit/convex/newton_system.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

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

// One column-wise preconditioned CG iteration at a time.
class ProjectedGradients {
 public:
  ProjectedGradients(const WeightedSystem& system, const Block& rhs)
      : system_(system),
        residual_(rhs),
        inverse_(rhs.size(), 0.0),
        image_(rhs.size()),
        search_(rhs.size(), 0.0),
        size_(system.columns, 0.0) {
    for (std::size_t e = 0; e < rhs.size(); ++e)
      if (system.weights[e] > 0) inverse_[e] = 1 / (system.weights[e] + system.kernel_scale);
    inverse_sums_ = column_sums(inverse_, system.columns);
    intercept_.assign(system.columns, 0.0);
    project();
  }
  const Block& residual() const { return residual_; }  // r - 1 b^T
  const std::vector<double>& intercept() const { return intercept_; }
  void iterate(CountedKernel& kernel, NewtonStep& step);

 private:
  std::size_t column(std::size_t e) const { return e % system_.columns; }
  void project();

  const WeightedSystem& system_;
  Block residual_, inverse_, image_, search_;  // r - 1 b^T, M^-1, z, p
  std::vector<double> size_, inverse_sums_, intercept_;
};

// Moves b so that z = M^-1 (r - 1 b^T) sums to zero.
void ProjectedGradients::project() {
  std::vector<double> shift(system_.columns, 0.0);
  if (system_.intercept) {
    for (std::size_t e = 0; e < residual_.size(); ++e) shift[column(e)] += inverse_[e] * residual_[e];
    for (std::size_t c = 0; c < shift.size(); ++c)
      shift[c] = inverse_sums_[c] > 0 ? shift[c] / inverse_sums_[c] : 0;
  }
  for (std::size_t c = 0; c < shift.size(); ++c) intercept_[c] += shift[c];
  for (std::size_t e = 0; e < residual_.size(); ++e) {
    residual_[e] -= shift[column(e)];
    image_[e] = inverse_[e] * residual_[e];
  }
}

void ProjectedGradients::iterate(CountedKernel& kernel, NewtonStep& step) {
  std::vector<double> before = size_, curvature(size_.size(), 0.0);
  std::fill(size_.begin(), size_.end(), 0.0);
  for (std::size_t e = 0; e < image_.size(); ++e) size_[column(e)] += residual_[e] * image_[e];
  for (std::size_t e = 0; e < image_.size(); ++e) {
    const std::size_t c = column(e);
    search_[e] = image_[e] + (before[c] > 0 ? size_[c] / before[c] : 0) * search_[e];
  }
  const Block kernel_search = kernel(search_);
  const auto curved = [&](std::size_t e) { return kernel_search[e] + system_.weights[e] * search_[e]; };
  for (std::size_t e = 0; e < search_.size(); ++e) curvature[column(e)] += search_[e] * curved(e);
  for (std::size_t e = 0; e < search_.size(); ++e) {
    const double t = curvature[column(e)] > 0 ? size_[column(e)] / curvature[column(e)] : 0;
    step.dual[e] += t * search_[e];
    step.kernel_dual[e] += t * kernel_search[e];
    residual_[e] -= t * curved(e);
  }
  project();
}

}  // namespace

NewtonStep solve(const CurvatureSystem& system, CountedKernel& kernel, Block rhs, Block kernel_rhs) {
  NewtonStep out{Block(rhs.size(), 0.0), Block(rhs.size(), 0.0), {}, false};
  Block search = rhs, kernel_search = kernel_rhs;
  double size = inner(rhs, kernel_rhs);
  for (int k = 0; k < system.max_iterations && size > system.enough; ++k) {
    Block image = system.curvature(kernel_search);
    add_scaled(image, 2 * system.ridge, search);
    const double best = size / inner(kernel_search, image);
    if (!(best > 0) || !std::isfinite(best)) break;
    const double t = step_length(out, search, kernel_search, system.radius, best);
    add_scaled(out.dual, t, search);
    add_scaled(out.kernel_dual, t, kernel_search);
    out.at_radius = t < best;
    if (out.at_radius) break;
    add_scaled(rhs, -t, image);
    kernel_rhs = kernel(rhs);
    const double before = std::exchange(size, inner(rhs, kernel_rhs));
    for (std::size_t i = 0; i < search.size(); ++i) {
      search[i] = rhs[i] + size / before * search[i];
      kernel_search[i] = kernel_rhs[i] + size / before * kernel_search[i];
    }
  }
  return out;
}

NewtonStep solve(const WeightedSystem& system, CountedKernel& kernel, const Block& rhs) {
  NewtonStep out{Block(rhs.size(), 0.0), Block(rhs.size(), 0.0), {}, false};
  ProjectedGradients gradients(system, rhs);
  for (int k = 0; k < system.max_iterations && !system.enough(gradients.residual()); ++k)
    gradients.iterate(kernel, out);
  out.intercept = gradients.intercept();
  return out;
}

}  // namespace headlens::training

#include "fit/convex/dual_iterate.hpp"

#include <utility>

namespace headlens::training {

DualIterate::DualIterate(LossFunction loss, const BlockOperator& kernel, const NewtonOptions& options,
                         const Execution& execution, double tolerance)
    : loss_(std::move(loss)),
      kernel_(kernel, loss_.rows(), loss_.outputs(), execution),
      options_(options),
      execution_(execution),
      tolerance_(options.tolerance.value_or(tolerance)),
      n_(loss_.rows()),
      q_(loss_.outputs()) {}

void DualIterate::refresh() {
  kernel_dual_ = kernel_(dual_);
  steps_since_refresh_ = 0;
}

void DualIterate::measure() {
  norm_ = std::max(0.0, inner(dual_, kernel_dual_));
  objective_ = loss_.value(view(scores_)) + options_.ridge * norm_;
}

NewtonSolution DualIterate::finish(FitStatus status) const {
  NewtonSolution out;
  out.status = status;
  out.point = {as_matrix(dual_, q_), intercept_};
  out.scores = as_matrix(scores_, q_);
  out.objective = objective_;
  out.loss = objective_ - options_.ridge * norm_;
  out.gap = gap_ > 0 ? gap_ / scale() : 0;
  out.iterations = iterations_;
  out.operator_applications = kernel_.applications();
  out.intercept_capped = capped_;
  return out;
}

}  // namespace headlens::training

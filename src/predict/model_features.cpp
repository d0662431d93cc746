// The features of a fitted model, in the order of its values: predict_scores() is features * values + b.
#include "backend/backend.hpp"
#include "base/parallel.hpp"
#include "headlens/fit.hpp"
#include "predict/check_fits.hpp"

namespace headlens {

Array compute_features(const Model& model, const Sets& sets, const Execution& execution) {
  const Heed heeding(execution);
  prediction::check_fits(model, sets);
  const backend::Context context = backend::context_of(execution);
  return context.machine.features(model, sets, context);
}

}  // namespace headlens

// Whether a model can read sets.
#pragma once

#include "headlens/error.hpp"
#include "headlens/model.hpp"

namespace headlens::prediction {

// Error unless width, layout and, for mlp, the number of keys are those the model was fitted on. `sets`: a
// Sets, or a SetReader.
template <class Source>
void check_fits(const Model& model, const Source& sets) {
  require(model.dim == sets.dim(), sets.name(), ": tokens have ", sets.dim(),
          " coordinates, the model expects ", model.dim);
  require(model.sequence == sets.is_sequence(), sets.name(), ": the model was fitted on ",
          model.sequence ? "sequences" : "sets", ", this file holds ", model.sequence ? "sets" : "sequences");
  if (model.features.kind == ModelKind::mlp)
    require(sets.equal_sizes() && sets.max_keys() == model.keys, sets.name(),
            ": the mlp was fitted on sets of ", model.keys, " keys, found ",
            sets.equal_sizes() ? "" : "up to ", sets.max_keys());
}

}  // namespace headlens::prediction

// Whether a model can read sets.
#pragma once

#include "headlens/model.hpp"
#include "headlens/sets.hpp"

namespace headlens {

// Error unless width, layout and, for mlp, the number of keys are those the model was fitted on.
void check_fits(const Model& model, const Sets& sets);

}  // namespace headlens

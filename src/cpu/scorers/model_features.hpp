// What the values of a model read.
#pragma once

#include "backend/backend.hpp"

namespace headlens::cpu {

Array model_features(const Model& model, const Sets& sets, const backend::Context& context);

}  // namespace headlens::cpu

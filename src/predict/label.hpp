// The class that scores choose.
#pragma once

#include <algorithm>
#include <cstdint>

#include "headlens/model.hpp"

namespace headlens::prediction {

// scores (q): one for each class, or the sign decides between two.
inline std::int64_t label_of(const Model& model, const double* scores) {
  if (model.outputs == 1) return model.classes[scores[0] > 0 ? 1 : 0];
  return model.classes[static_cast<std::size_t>(std::max_element(scores, scores + model.outputs) - scores)];
}

}  // namespace headlens::prediction

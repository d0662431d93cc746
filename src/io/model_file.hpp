// A model from the contents of its file, checked as load_model does; `file` begins every error.
#pragma once

#include <string>

#include "headlens/arrays.hpp"
#include "headlens/model.hpp"

namespace headlens {

Model model_from_tensors(TensorFile tensors, const std::string& file);

}  // namespace headlens

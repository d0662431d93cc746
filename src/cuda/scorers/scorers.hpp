// Scores of models on the device: features or kernels of a block of sets, times the values.
#pragma once

#include "backend/backend.hpp"

namespace headlens::cuda {

std::unique_ptr<backend::Scorer> make_head_scorer(const Model& model, Index max_keys);
std::unique_ptr<backend::Scorer> make_kernel_scorer(const Model& model);

// What the values of a model with finitely many heads read, (n, M D), in the order of its values.
Array head_features(const Model& model, const Sets& sets, const backend::Context& context);

}  // namespace headlens::cuda

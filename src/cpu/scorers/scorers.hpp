// Scores of models, of whose features only as many are held as fit in cache.
#pragma once

#include <memory>

#include "backend/scorer.hpp"

namespace headlens::cpu {

std::unique_ptr<backend::Scorer> make_head_scorer(const Model& model, Index max_keys);
std::unique_ptr<backend::Scorer> make_kernel_scorer(const Model& model, Index max_keys);

}  // namespace headlens::cpu

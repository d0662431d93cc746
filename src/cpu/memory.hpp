// What the routes of a fit take in memory on the processor.
#pragma once

#include "backend/route.hpp"

namespace headlens::cpu {

// Columns of the features of heads, padded to whole blocks of the feature map.
double design_columns(const FeatureOptions& features, Index dim, Index keys);

double route_bytes(const backend::Route& route, const backend::Shape& shape, int threads);

}  // namespace headlens::cpu

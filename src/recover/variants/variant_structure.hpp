// Is there structure in what a fit leaves over that the layer would show if its logits and values depended on the
// distance of tokens in any way? To first order such a layer adds
//
//   dF_a = sum_i (sum_b dP^i_ab x_b W_i + sum_b P^i_ab x_b N_i,a-b),   dL^i_ab = x_a M_i,a-b x_b^T.
//
// M and N are taken along the gradient of the training residual, and what they predict is compared with the
// residual of the held-out examples. For noise the correlation, divided by its standard error, is about standard
// normal, whatever M and N are; a wrong minimum or a wrong variant shows.
#pragma once

#include "recover/variants/variant_search.hpp"

namespace headlens::recovery {

double distance_structure(const VariantData& data, const VariantCandidate& candidate, int threads);  // z

}  // namespace headlens::recovery

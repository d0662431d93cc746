// A layer written back into the tensors of a checkpoint, in the layout that the checkpoint has.
//
// Heads in factors are copied where their rank fits. Heads that are multiplied out are cut by singular
// values: the heads of a group of keys and values together, [Theta_1; u_1; Theta_2; u_2; ...] = [Q_1; b_1;
// Q_2; b_2; ...] K^T and [W_1 W_2 ...] = V [O_1 O_2 ...]. A key bias is set to zero; the constant c becomes
// the output bias, or, where the file has none, value biases with sum_h O_h^T b_V,h = c.
#pragma once

#include <filesystem>
#include <string>

#include "headlens/match.hpp"

namespace headlens {

struct Export {
  NamedArrays tensors;
  double loss =
      0;  // |written - given| / |given|, of the head (Theta with its bias, or W) or constant that lost most
};

// `options` says which weights of `like` are replaced; `name` opens error texts. Error where the layer has
// another number of heads, another size or biases that the file has no tensor for, or where more than 1e-5
// would be lost.
Export export_layer(const LayerHeads& layer, NamedArrays like, const WeightsOptions& options,
                    const std::string& name);

}  // namespace headlens

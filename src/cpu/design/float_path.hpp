// The path of backend/gram.hpp in float: the band reduction of a FloatSystem. Choosing a penalty needs few
// digits; only the coefficients at the chosen one need them all.
#pragma once

#include "cpu/design/float_system.hpp"
#include "cpu/design/host_design.hpp"

namespace headlens::cpu {

// Null if the squares leave the range of float.
std::unique_ptr<backend::ShiftPath> make_float_path(HostDesign& design, FloatSystem system,
                                                    const backend::GramRequest& request, double trace);

}  // namespace headlens::cpu

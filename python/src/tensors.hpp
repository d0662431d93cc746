// Named tensors between Python and the library, and where heads come from.
#pragma once

#include <nanobind/stl/string.h>

#include <optional>
#include <string>

#include "arrays.hpp"
#include "headlens/match.hpp"

namespace headlens::python {

inline NamedArrays to_tensors(const nb::dict& tensors) {
  NamedArrays out;
  for (const auto [key, value] : tensors) out[nb::cast<std::string>(key)] = borrow(nb::cast<AnyArray>(value));
  return out;
}

inline HeadsSource source_of(const WeightsOptions& weights, bool all_layers,
                             const std::optional<std::string>& rotary) {
  HeadsSource out{.weights = weights, .all_layers = all_layers};
  if (rotary) out.rotary = read_rotary(*rotary);
  return out;
}

inline nb::dict to_dict(const NamedArrays& tensors) {
  nb::dict out;
  for (const auto& [name, array] : tensors) out[name.c_str()] = to_numpy(array);
  return out;
}

}  // namespace headlens::python

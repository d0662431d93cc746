// What every route of a fit takes of the device.
#pragma once

#include "backend/route.hpp"

namespace headlens::cuda {

double route_bytes(const backend::Route& route, const backend::Shape& shape);

}  // namespace headlens::cuda

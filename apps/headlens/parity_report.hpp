// What the learners of hard layers (parities and roundings) found, as JSON and as text.
#pragma once

#include <string>

#include "command.hpp"
#include "headlens/parity.hpp"

namespace headlens::app {

Json parity_json(const ParityReport& report);
std::string parity_text(const ParityReport& report);

}  // namespace headlens::app

// What --best-fit says of its layer, as JSON and as text.
#pragma once

#include <string>

#include "command.hpp"
#include "headlens/recover.hpp"

namespace headlens::app {

Json best_fit_json(const BestFitReport& report);
std::string best_fit_text(const BestFitReport& report);

}  // namespace headlens::app

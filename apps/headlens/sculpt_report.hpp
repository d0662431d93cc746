// The phases of --method sculpt, as JSON and as a table.
#pragma once

#include <string>

#include "command.hpp"
#include "headlens/sculpt.hpp"

namespace headlens::app {

// --sculpt-form and --span-form.
void add_sculpt_options(CLI::App& command, SculptOptions& options);

Json sculpt_json(const SculptReport& report);
std::string sculpt_text(const SculptReport& report);

}  // namespace headlens::app

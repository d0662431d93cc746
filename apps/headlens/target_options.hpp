#pragma once

#include "cli.hpp"
#include "headlens/tasks.hpp"

namespace headlens::app {

// --degree, --pure, --matrix and --weight, as far as the task takes them.
void add_target_options(Command& command, TaskOptions& options);

}  // namespace headlens::app

// gnuplot as a child process, with a script in a folder of its own and no settings of the user's.
#pragma once

#include <filesystem>
#include <string>

#include "headlens/execution.hpp"

namespace headlens::report {

// Runs `script` in `folder`, where its outputs go. Error where gnuplot is missing or fails, with its words.
void run_gnuplot(const std::string& script, const std::filesystem::path& folder, const Execution& execution);

}  // namespace headlens::report

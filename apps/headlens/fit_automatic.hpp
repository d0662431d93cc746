// headlens fit DATA --auto: the fit that chooses everything itself.
#pragma once

#include <filesystem>
#include <string>

#include "command.hpp"
#include "headlens/automatic.hpp"

namespace headlens::app {

// Error if an option says what --auto chooses. `named`: an option that was given and is not in the tables.
void require_no_choice(const FitOptions& options, const std::string& named);

int run_automatic(const CommonOptions& common, const LabelledSets& data, std::uint64_t seed,
                  const std::filesystem::path& file, const Execution& execution);

}  // namespace headlens::app

// Pages about one recovery, match or refit: the result in plain words with what to do next, spectra of the
// heads, what the heads attend to in the first example, and the trace of the solver.
//
// The folder is written as that of report.hpp is: index.html, and figures as SVG, PDF and PNG with their CSV.
#pragma once

#include <filesystem>
#include <vector>

#include "headlens/match.hpp"
#include "headlens/recover.hpp"
#include "headlens/refit.hpp"

namespace headlens {

// Error where a report could not be written to the folder: asked before the work, which may take long.
void check_report_folder(const std::filesystem::path& folder);

// All return index.html of the folder.
std::filesystem::path write_report(const Recovery& recovery, const Examples& examples,
                                   const std::filesystem::path& folder, const Execution& execution);
std::filesystem::path write_report(const Match& match, const std::vector<LayerHeads>& a,
                                   const std::vector<LayerHeads>& b, const std::filesystem::path& folder,
                                   const Execution& execution);
std::filesystem::path write_report(const Refit& refit, const Tokens& tokens,
                                   const std::filesystem::path& folder, const Execution& execution);

}  // namespace headlens

// Study files: TOML text to a checked Study.
#pragma once

#include <string>
#include <vector>

#include "headlens/study.hpp"

namespace headlens {

// `file` opens every error. Every cell of the grid is checked, so what this returns can be run.
Study parse_study(const std::string& text, const Text& file);

// The text with "grid.samples=[64, 128]" written into it: a value is replaced where it stands, a new key is
// put under the header of its table.
std::string with_override(const std::string& text, const std::string& override_text, const Text& file);

}  // namespace headlens

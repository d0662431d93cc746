// Text that came from a file or the command line, made safe to show inside an error: one line of valid UTF-8
// without control characters. A name in a hostile file can neither forge a second line nor steer a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace headlens::io {

// Offending bytes appear as \xNN; what exceeds `limit` bytes of the original is cut and marked "...".
std::string printable(std::string_view text, std::size_t limit = std::string_view::npos);

// A name found in a file: long ones would bury the message.
inline std::string printable_name(std::string_view name) { return printable(name, 120); }

}  // namespace headlens::io

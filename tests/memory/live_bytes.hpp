// What this process has allocated, exactly: the test program brings its own malloc, which counts.
#pragma once

#include <cstddef>

namespace headlens::reference {

std::size_t live_bytes();
std::size_t peak_bytes();  // since the last reset
void reset_peak();
bool counts_allocations();  // not under sanitizers, which bring a malloc of theirs

}  // namespace headlens::reference

// Values of options as text, and whether they are in range.
#pragma once

#include <cstdint>
#include <string>

#include "headlens/options.hpp"

namespace headlens::options {

// Error{misuse}: "ridge: '-1' given, expected auto or a number, 0 or more".
[[noreturn]] void refuse(const OptionInfo& info, const Text& given);
void check_range(const OptionInfo& info, double value);
void check_range(const OptionInfo& info, std::int64_t value);

std::uint64_t read_natural(const OptionInfo& info, const std::string& text);
std::pair<double, double> read_pair(const OptionInfo& info, const std::string& text);  // "K1,K2"
int read_word(const OptionInfo& info, const std::string& text);
bool read_flag(const OptionInfo& info, const std::string& text);

std::string show(double value);  // the shortest text that reads as this number

}  // namespace headlens::options

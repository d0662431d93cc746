// Text that a user wrote, made safe for each of the languages a report is written in.
#pragma once

#include <string>
#include <string_view>

namespace headlens::report {

std::string html(std::string_view text);    // content and attributes; valid UTF-8, new lines kept
std::string quoted(std::string_view text);  // a gnuplot string: single quotes, in which nothing is expanded
std::string field(std::string_view text);   // of a CSV file, RFC 4180
std::string slug(std::string_view text);    // of a file name: lower-case letters, digits and dashes
std::string cut(std::string_view text, std::size_t characters);  // ends in an ellipsis where it is longer

std::string number(double value, int digits = 3);  // 0.0123, 1234, 1.2e-09
std::string exact(double value);                   // reads back as the same number
std::string axis_number(double value);             // 0.02, 200, 2·10⁻⁵

}  // namespace headlens::report

#include "options/values.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace headlens {

std::string expected(const OptionInfo& info) {
  using options::show;
  if (info.kind == OptionKind::flag) return "true or false";
  if (info.kind == OptionKind::word) {
    std::string all = "one of ";
    for (const std::string& one : info.choices) all += (&one == &info.choices[0] ? "" : ", ") + one;
    return all;
  }
  const Range& range = info.range;
  std::string what = info.kind == OptionKind::whole  ? "a whole number"
                     : info.kind == OptionKind::pair ? "two numbers"
                                                     : "a number";
  if (range.without_least)
    what += " above " + show(range.least);
  else if (std::isfinite(range.least) && std::isfinite(range.most))
    what += " from " + show(range.least) + " to " + show(range.most);
  else if (std::isfinite(range.least))
    what += ", " + show(range.least) + " or more";
  return info.nothing.empty() ? what : info.nothing + " or " + what;
}

namespace options {

void refuse(const OptionInfo& info, const Text& given) {
  throw Error(ErrorCode::misuse,
              message(option(info.name), ": ", given, " given, expected ", expected(info)));
}

namespace {

bool fits(const Range& range, double value) {
  return std::isfinite(value) && value >= range.least && value <= range.most &&
         !(range.without_least && value == range.least);
}

Text quoted(const std::string& text) { return "'" + text + "'"; }

template <class T>
T read(const OptionInfo& info, const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool all = end == text.data() + text.size();
  if (error == std::errc::result_out_of_range && all && text[0] != '-' && !std::isfinite(info.range.most))
    throw Error(ErrorCode::misuse, message(option(info.name), ": ", quoted(text), " given, expected at most ",
                                           std::to_string(std::numeric_limits<T>::max())));
  if (error != std::errc() || !all) refuse(info, quoted(text));
  return value;
}

}  // namespace

void check_range(const OptionInfo& info, double value) {
  if (!fits(info.range, value)) refuse(info, message(value));
}

void check_range(const OptionInfo& info, std::int64_t value) {
  if (!fits(info.range, static_cast<double>(value))) refuse(info, message(value));
}

std::uint64_t read_natural(const OptionInfo& info, const std::string& text) {
  return read<std::uint64_t>(info, text);
}

std::pair<double, double> read_pair(const OptionInfo& info, const std::string& text) {
  const std::size_t comma = text.find(',');
  if (comma == std::string::npos) refuse(info, quoted(text));
  return {read_real(info, text.substr(0, comma)), read_real(info, text.substr(comma + 1))};
}

int read_word(const OptionInfo& info, const std::string& text) {
  const auto found = std::find(info.choices.begin(), info.choices.end(), text);
  if (found == info.choices.end()) refuse(info, quoted(text));
  return static_cast<int>(found - info.choices.begin());
}

bool read_flag(const OptionInfo& info, const std::string& text) {
  if (text != "true" && text != "false") refuse(info, quoted(text));
  return text == "true";
}

std::string show(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15)
    return std::to_string(static_cast<std::int64_t>(value));  // 1000000, not 1e+06
  std::array<char, 32> out{};
  const auto [end, error] = std::to_chars(out.data(), out.data() + out.size(), value);
  return {out.data(), end};
}

}  // namespace options

// By strtod, as shells and C programs do: 1e-3, .5 and +2 are numbers.
double read_real(const OptionInfo& info, const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(value)) options::refuse(info, "'" + text + "'");
  options::check_range(info, value);
  return value;
}

std::int64_t read_whole(const OptionInfo& info, const std::string& text) {
  const auto value = options::read<std::int64_t>(info, text);
  options::check_range(info, value);
  return value;
}

}  // namespace headlens

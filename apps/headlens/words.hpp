// Words and whole numbers of the command line: how they are read, and what was probably meant.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headlens::app {

// The one rule for whole numbers: decimal digits, with a minus sign before them where T has one, that fit in
// T.
template <class T>
std::optional<T> parse_whole(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "; did you mean 'fit'?" if one of the known words is near `word`, else "".
std::string did_you_mean(const std::string& word, const std::vector<std::string>& known);

std::vector<std::string> split_choices(const std::string& choices);  // "rfa|brfa|mlp"; none without a '|'

// Error text for a word that is none of them; empty if it is one.
std::string unknown_choice(const std::string& word, const std::vector<std::string>& known);

}  // namespace headlens::app

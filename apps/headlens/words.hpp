// Words and whole numbers of the command line: how they are read, and what was probably meant.
#pragma once

#include <CLI/CLI.hpp>

#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headlens/error.hpp"

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

// That rule for an option: ->transform(whole_number<Index>()). What CLI11 then reads is plain: by itself it
// would take 010 for 8 and cut numbers that are too large.
template <class T>
CLI::Validator whole_number(T least = std::numeric_limits<T>::min(), T most = std::numeric_limits<T>::max()) {
  return {[least, most](std::string& text) {
            const std::optional<T> value = parse_whole<T>(text);
            const bool any = least == std::numeric_limits<T>::min() && most == std::numeric_limits<T>::max();
            const bool digits = text.find_first_not_of("-0123456789") == std::string::npos;
            if (!value || *value < least || *value > most)
              return join("'", text, "' given, expected a whole number",
                          any && !digits ? "" : join(" from ", least, " to ", most));
            text = std::to_string(*value);
            return std::string();
          },
          ""};
}

template <class T>
struct Plain {
  using type = T;
};
template <class T>
struct Plain<std::optional<T>> {
  using type = T;
};

// An option that is a whole number, or an optional one.
template <class T>
CLI::Option* add_whole(CLI::App& command, const std::string& names, T& value, const std::string& what,
                       const std::string& shown) {
  return command.add_option(names, value, what)
      ->transform(whole_number<typename Plain<T>::type>())
      ->type_name(shown);
}

// "; did you mean 'fit'?" if one of the known words is near `word`, else "".
std::string did_you_mean(const std::string& word, const std::vector<std::string>& known);

// One of a few words, written "rfa|brfa|mlp".
CLI::Option* add_choice(CLI::App& command, const std::string& names, std::string& value,
                        const std::string& what, const std::string& choices);

std::vector<std::string> split_choices(const std::string& choices);  // none without a '|'

// Error text for a word that is none of them; empty if it is one.
std::string unknown_choice(const std::string& word, const std::vector<std::string>& known);

// One of a few words that stand for values; letters of either case.
template <class T>
CLI::Option* add_choice(CLI::App& command, const std::string& names, T& value, const std::string& what,
                        const std::string& choices, const std::map<std::string, T>& values) {
  const CLI::Validator look_up(
      [choices, values](std::string& text) {
        const std::string word = CLI::detail::to_lower(text);
        const std::string problem = unknown_choice(word, split_choices(choices));
        if (problem.empty()) text = std::to_string(static_cast<long>(values.at(word)));
        return problem;
      },
      "");
  std::string shown;
  for (const auto& [word, meaning] : values)
    if (meaning == value) shown = word;
  return command.add_option(names, value, what)->transform(look_up)->type_name(choices)->default_str(shown);
}

}  // namespace headlens::app

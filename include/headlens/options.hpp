// One description of every option: its name, kind, default, range and help. The command line and its manual,
// the Python package, study files, and docs/command-line.md take theirs from here, and so do the checks of
// validate().
//
//   for (const Option<FitOptions>& option : options_of<FitOptions>()) ... option.info.help ...
//   set_option(options, "huber-delta", "0.5");
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "headlens/array.hpp"
#include "headlens/error.hpp"
#include "headlens/text.hpp"

namespace headlens {

struct NormBall;

enum class OptionKind { whole, real, word, flag, pair, list, matrix };

// The numbers that are allowed. What is not finite never is.
struct Range {
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
  bool without_least = false;
};
constexpr Range at_least(double least) { return {.least = least}; }
constexpr Range above(double least) { return {.least = least, .without_least = true}; }
constexpr Range from_to(double least, double most) { return {.least = least, .most = most}; }

struct OptionInfo {
  std::string name;     // as studies write it: "huber-delta"
  std::string shown;    // stands for the value in help: "D"; the choices, for a word
  Text help;            // one line
  Text more;            // added on the page, in Markdown
  std::string nothing;  // the word for no number: "auto", "full", "inf" (infinitely many)
  std::string unset;    // what holds by default, where no value says so: "0; brfa: 1"
  Range range;

  // Taken from the member, and from a struct of defaults.
  OptionKind kind = OptionKind::word;
  std::vector<std::string> choices;
  std::string fallback;  // as text; empty if there is no value
};

// An enumeration, by the place of its word.
template <class Options>
struct Choice {
  std::string_view words;  // "rfa|brfa|mlp"
  int (*get)(const Options&) = nullptr;
  void (*set)(Options&, int) = nullptr;
};

// Where the value is kept. monostate: each front end reads this option in its own way.
template <class Options>
using Member =
    std::variant<std::monostate, bool Options::*, int Options::*, Index Options::*, std::uint64_t Options::*,
                 double Options::*, std::string Options::*, std::optional<Index> Options::*,
                 std::optional<double> Options::*, std::optional<NormBall> Options::*,
                 std::optional<Array> Options::*, std::vector<Index> Options::*, Choice<Options>>;

template <class Options>
struct Option {
  OptionInfo info;
  Member<Options> member;
};

// Of FeatureOptions, FitOptions, KernelOptions, RecoverOptions, SculptOptions, TaskOptions, TheoryOptions,
// TeacherOptions, ExampleOptions, HardOptions, InspectOptions, WeightsOptions, CheckOptions, FourierOptions,
// RunOptions and Execution; options of an inner struct are those of that struct. In the order in which help
// shows them.
template <class Options>
const std::vector<Option<Options>>& options_of();

template <class Options>
const Option<Options>& option_of(std::string_view name) {
  for (const Option<Options>& one : options_of<Options>())
    if (one.info.name == name) return one;
  throw Bug("headlens bug: no option " + std::string(name));
}

// "a whole number, 1 or more, or inf": what a message says was expected.
std::string expected(const OptionInfo& info);

// Error if a number is out of range, or not finite.
template <class Options>
void check_ranges(const Options& options);

// From text, by one rule everywhere: whole numbers are decimal digits, with a minus sign before them.
std::int64_t read_whole(const OptionInfo& info, const std::string& text);
double read_real(const OptionInfo& info, const std::string& text);
template <class Options>
void set_option(Options& options, const Option<Options>& option, const std::string& text);
template <class Options>
void set_option(Options& options, std::string_view name, const std::string& text) {
  set_option(options, option_of<Options>(name), text);
}

// As set_option() reads it, of a struct that was just made; empty if there is no value.
template <class Options>
std::string option_text(const Options& options, const Option<Options>& option);

}  // namespace headlens

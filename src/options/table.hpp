// How a table of options is put together, and what is done with every row of one.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "headlens/options.hpp"
#include "options/values.hpp"
#include "options/words.hpp"

namespace headlens::options {

template <class Pointer>
struct Parts;
template <class Struct, class Value>
struct Parts<Value Struct::*> {
  using Options = Struct;
  using Enum = Value;
};

// choice<&FitOptions::loss>()
template <auto pointer>
auto choice() {
  using Options = typename Parts<decltype(pointer)>::Options;
  using Enum = typename Parts<decltype(pointer)>::Enum;
  return Choice<Options>{kWords<Enum>,
                         [](const Options& options) { return static_cast<int>(options.*pointer); },
                         [](Options& options, int place) { options.*pointer = static_cast<Enum>(place); }};
}

template <class Options>
struct KindOf {
  OptionKind operator()(std::monostate) const { return OptionKind::word; }
  OptionKind operator()(bool Options::*) const { return OptionKind::flag; }
  OptionKind operator()(int Options::*) const { return OptionKind::whole; }
  OptionKind operator()(Index Options::*) const { return OptionKind::whole; }
  OptionKind operator()(std::uint64_t Options::*) const { return OptionKind::whole; }
  OptionKind operator()(double Options::*) const { return OptionKind::real; }
  OptionKind operator()(std::string Options::*) const { return OptionKind::word; }
  OptionKind operator()(std::optional<Index> Options::*) const { return OptionKind::whole; }
  OptionKind operator()(std::optional<double> Options::*) const { return OptionKind::real; }
  OptionKind operator()(std::optional<NormBall> Options::*) const { return OptionKind::pair; }
  OptionKind operator()(std::optional<Array> Options::*) const { return OptionKind::matrix; }
  OptionKind operator()(std::vector<Index> Options::*) const { return OptionKind::list; }
  OptionKind operator()(const Choice<Options>&) const { return OptionKind::word; }
};

// The value as set() would read it; empty where there is none.
template <class Options>
struct Shown {
  const Options& options;
  const OptionInfo& info;

  template <class T>
  std::string operator()(std::optional<T> Options::*) const {  // of a struct of defaults: none is given
    return info.nothing;
  }
  std::string operator()(std::monostate) const { return info.fallback; }
  std::string operator()(bool Options::*member) const { return options.*member ? "true" : "false"; }
  std::string operator()(Index Options::*member) const {
    return options.*member == kInfiniteHeads ? info.nothing : std::to_string(options.*member);
  }
  std::string operator()(int Options::*member) const { return std::to_string(options.*member); }
  std::string operator()(std::uint64_t Options::*member) const { return std::to_string(options.*member); }
  std::string operator()(double Options::*member) const { return show(options.*member); }
  std::string operator()(std::string Options::*member) const { return options.*member; }
  std::string operator()(std::vector<Index> Options::*) const { return info.fallback; }
  std::string operator()(const Choice<Options>& choice) const {
    return info.choices.at(static_cast<std::size_t>(choice.get(options)));
  }
};

template <class Options>
std::vector<Option<Options>> table(std::vector<Option<Options>> rows,
                                   const std::vector<Option<Options>>& more = {}) {
  const Options defaults;
  rows.insert(rows.end(), more.begin(), more.end());
  for (auto& [info, member] : rows) {
    if (!std::holds_alternative<std::monostate>(member)) info.kind = std::visit(KindOf<Options>(), member);
    if (std::holds_alternative<std::uint64_t Options::*>(member)) info.range = at_least(0);
    if (const auto* choice = std::get_if<Choice<Options>>(&member)) info.choices = split(choice->words);
    if (info.shown.empty())
      for (const std::string& word : info.choices) info.shown += (info.shown.empty() ? "" : "|") + word;
    if (info.unset.empty()) info.fallback = std::visit(Shown<Options>{defaults, info}, member);
  }
  return rows;
}

template <class Options>
struct Check {
  const Options& options;
  const OptionInfo& info;

  // 0 is no number where the table says what holds by default, nor are infinitely many heads.
  void whole(Index value) const {
    const bool none = info.nothing.empty() ? !info.unset.empty() && value == 0 : value == kInfiniteHeads;
    if (!none) check_range(info, value);
  }
  void operator()(int Options::*member) const { whole(options.*member); }
  void operator()(Index Options::*member) const { whole(options.*member); }
  void operator()(double Options::*member) const { check_range(info, options.*member); }
  void operator()(std::optional<Index> Options::*member) const {
    if (options.*member) check_range(info, *(options.*member));
  }
  void operator()(std::optional<double> Options::*member) const {
    if (options.*member) check_range(info, *(options.*member));
  }
  void operator()(std::optional<NormBall> Options::*member) const {
    if (!(options.*member)) return;
    check_range(info, (options.*member)->k1);
    check_range(info, (options.*member)->k2);
  }
  template <class Other>
  void operator()(const Other&) const {}  // nothing but numbers has a range
};

template <class Options>
struct Set {
  Options& options;
  const OptionInfo& info;
  const std::string& text;

  bool none() const { return !info.nothing.empty() && text == info.nothing; }

  template <class Other>
  void operator()(const Other&) const {
    throw Bug("headlens bug: " + info.name + " is not read from text");
  }
  void operator()(bool Options::*member) const { options.*member = read_flag(info, text); }
  void operator()(int Options::*member) const {
    const std::int64_t value = headlens::read_whole(info, text);
    options.*member = static_cast<int>(value);
    if (options.*member != value) refuse(info, "'" + text + "'");
  }
  void operator()(Index Options::*member) const {
    options.*member = none() ? kInfiniteHeads : headlens::read_whole(info, text);
    if (!none() && options.*member == kInfiniteHeads)
      refuse(info, "'" + text + "'");  // only the word says so
  }
  void operator()(std::uint64_t Options::*member) const { options.*member = read_natural(info, text); }
  void operator()(double Options::*member) const { options.*member = headlens::read_real(info, text); }
  void operator()(std::string Options::*member) const { options.*member = text; }
  void operator()(std::optional<Index> Options::*member) const {
    options.*member = none() ? std::nullopt : std::optional<Index>(headlens::read_whole(info, text));
  }
  void operator()(std::optional<double> Options::*member) const {
    options.*member = none() ? std::nullopt : std::optional(headlens::read_real(info, text));
  }
  void operator()(std::optional<NormBall> Options::*member) const {
    const auto [k1, k2] = none() ? std::pair(0.0, 0.0) : read_pair(info, text);
    options.*member = none() ? std::nullopt : std::optional(NormBall{k1, k2});
  }
  void operator()(const Choice<Options>& choice) const { choice.set(options, read_word(info, text)); }
};

}  // namespace headlens::options

namespace headlens {

template <class Options>
void check_ranges(const Options& options) {
  for (const auto& [info, member] : options_of<Options>())
    std::visit(options::Check<Options>{options, info}, member);
}

template <class Options>
std::string option_text(const Options& options, const Option<Options>& option) {
  return std::visit(options::Shown<Options>{options, option.info}, option.member);
}

template <class Options>
void set_option(Options& options, const Option<Options>& option, const std::string& text) {
  std::visit(options::Set<Options>{options, option.info, text}, option.member);
  std::visit(options::Check<Options>{options, option.info}, option.member);
}

}  // namespace headlens

// The table of a struct is a function of this name; this makes what goes with it.
#define HEADLENS_OPTIONS(Options)                                                    \
  template void check_ranges<Options>(const Options&);                               \
  template std::string option_text<Options>(const Options&, const Option<Options>&); \
  template void set_option<Options>(Options&, const Option<Options>&, const std::string&);

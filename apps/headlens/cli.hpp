// A command of the program: its options, its help and what it does. CLI11 is behind parser.cpp alone, for it
// takes seconds to compile in every file that sees it.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "headlens/options.hpp"

namespace headlens::app {

// An option as data: what completion scripts, the manual page and docs/command-line.md are made from.
struct OptionEntry {
  std::vector<std::string> names;    // "-o", "--output"; one bare name for positionals
  std::string value;                 // "M"; empty for flags
  std::vector<std::string> choices;  // from a value written "rfa|brfa|mlp"
  std::string description;
  std::string more;      // for the page only
  std::string fallback;  // default, as text
  std::string unset;     // what holds without a default
  bool positional = false, required = false;
};

enum class Needed { no, yes };

class Command {
 public:
  Command(const std::string& name, const std::string& description, const std::string& version);
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  Command& add_command(const std::string& name, const std::string& description);
  Command& add_hidden_command(const std::string& name, const std::string& description);
  void require_command();  // does nothing by itself

  // What `read` throws as Error becomes one line with the name of the option.
  using Reader = std::function<void(const std::string&)>;
  void add_option(const OptionInfo& info, const Reader& read);
  // Those of a struct, in the order of their names here. What the struct holds is the default.
  template <class Options>
  void add_options(Options& options, std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) {
      const Option<Options>& one = option_of<Options>(name);
      OptionInfo info = one.info;
      if (info.unset.empty()) info.fallback = option_text(options, one);
      add_option(info, [&options, &one](const std::string& text) { set_option(options, one, text); });
    }
  }

  // Options of the program itself: files, and what it prints.
  void add_positional(const std::string& name, std::string& value, const std::string& help,
                      Needed needed = Needed::yes);
  void add_positionals(const std::string& name, std::vector<std::string>& values, const std::string& help,
                       Needed needed);
  void add_text(const std::string& names, std::string& value, const std::string& shown,
                const std::string& help, Needed needed = Needed::no);
  void add_texts(const std::string& name, std::vector<std::string>& values, const std::string& shown,
                 const std::string& help);  // may be repeated
  void add_flag(const std::string& name, bool& value, const std::string& help);

  void set_footer(const std::string& text);
  void set_action(std::function<int()> run);

  const std::string& name() const { return name_; }
  const std::string& description() const { return description_; }
  const std::string& footer() const { return footer_; }
  const std::vector<OptionEntry>& options() const { return options_; }
  const std::vector<std::unique_ptr<Command>>& commands() const { return commands_; }
  const Command* find(const std::string& name) const;  // of its commands; null if there is none
  std::string help(const std::string& path) const;

  // Parses, runs the action of the command that was named, and returns its status. Misuse is an Error.
  int run(int argc, char** argv);

 private:
  struct Parser;  // of CLI11
  Command(std::unique_ptr<Parser> parser, const std::string& name, const std::string& description);
  void remember(const std::string& names, OptionEntry entry);

  std::unique_ptr<Parser> parser_;
  std::string name_, description_, footer_;
  std::vector<OptionEntry> options_;
  std::vector<std::unique_ptr<Command>> commands_, hidden_;
};

// "'fitt' is not a command of headlens; did you mean 'fit'?"
std::string unknown_command(const Command& command, const std::string& path, const std::string& word);

}  // namespace headlens::app

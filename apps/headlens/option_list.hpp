// The options of a command, as data: what completion scripts and the man page are generated from.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace headlens::app {

struct OptionEntry {
  std::vector<std::string> names;    // "-o", "--output"; one bare name for positionals
  std::string value;                 // "M"; empty for flags
  std::vector<std::string> choices;  // from a value written "rfa|brfa|mlp"
  std::string description;
  std::string fallback;  // default, as text
  bool positional = false;
};

std::vector<OptionEntry> options_of(const CLI::App& command);
std::vector<CLI::App*> commands_of(CLI::App& app);

}  // namespace headlens::app

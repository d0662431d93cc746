// headlens man: the manual page in roff, generated from the commands themselves.
#include <fmt/format.h>

#include <sstream>

#include "command.hpp"
#include "headlens/info.hpp"
#include "option_list.hpp"

namespace headlens::app {
namespace {

std::string roff(const std::string& text) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!out.empty()) out += "\n";
    if (!line.empty() && (line[0] == '.' || line[0] == '\'')) out += "\\&";
    for (const char c : line) {
      if (c == '\\')
        out += "\\e";
      else if (c == '-')
        out += "\\-";
      else
        out += c;
    }
  }
  return out;
}

std::string option_item(const OptionEntry& option) {
  std::string head = fmt::format("\\fB{}\\fR", roff(fmt::format("{}", fmt::join(option.names, ", "))));
  if (!option.value.empty() && !option.positional) head += fmt::format(" \\fI{}\\fR", roff(option.value));
  std::string body = roff(option.description);
  if (!option.fallback.empty() && option.fallback != "false")
    body += fmt::format(" [{}]", roff(option.fallback));
  return fmt::format(".TP\n{}\n{}\n", head, body);
}

std::string section(CLI::App& command, const std::string& path) {
  std::string text = fmt::format(".SS \"{}\"\n{}\n", roff(path), roff(command.get_description()));
  for (const OptionEntry& option : options_of(command)) text += option_item(option);
  if (!command.get_footer().empty()) text += fmt::format(".PP\n.nf\n{}\n.fi\n", roff(command.get_footer()));
  for (CLI::App* inner : commands_of(command)) text += section(*inner, path + " " + inner->get_name());
  return text;
}

std::string page(CLI::App& app) {
  std::string text = fmt::format(".TH HEADLENS 1 \"\" \"headlens {}\" \"User Commands\"\n", version());
  text += fmt::format(".SH NAME\nheadlens \\- {}\n", roff(app.get_description()));
  text += ".SH SYNOPSIS\n.B headlens\n\\fICOMMAND\\fR [\\fIOPTION\\fR]...\n.SH DESCRIPTION\n";
  text += fmt::format(".nf\n{}\n.fi\n.SH COMMANDS\n", roff(app.get_footer()));
  for (CLI::App* command : commands_of(app)) text += section(*command, "headlens " + command->get_name());
  text +=
      ".SH FILES\n"
      "Sets are .npz files with \\fBquery\\fR (n,d), \\fBkeys\\fR (n,N,d) or (total,d) with \\fBoffsets\\fR "
      "(n+1), and\n"
      "\\fBy\\fR (n) or (n,q). Models are safetensors files.\n"
      ".SH ENVIRONMENT\n.TP\n\\fBOPENBLAS_CORETYPE\\fR\n"
      "BLAS kernels to use. Where OpenBLAS does not know the processor, headlens sets it and starts itself "
      "again.\n";
  return text;
}

}  // namespace

void add_man(CLI::App& app) {
  CLI::App& command = *app.add_subcommand("man", "Print the manual page");
  command.footer("Example:\n  headlens man | man -l -");
  set_action(command, [&app] {
    fmt::print("{}", page(app));
    return static_cast<int>(kOk);
  });
}

}  // namespace headlens::app

// headlens man: the manual page in roff, generated from the commands themselves.
#include <fmt/format.h>

#include <sstream>

#include "command.hpp"
#include "headlens/info.hpp"

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

std::string section(const Command& command, const std::string& path) {
  std::string text = fmt::format(".SS \"{}\"\n{}\n", roff(path), roff(command.description()));
  for (const OptionEntry& option : command.options()) text += option_item(option);
  if (!command.footer().empty()) text += fmt::format(".PP\n.nf\n{}\n.fi\n", roff(command.footer()));
  for (const auto& inner : command.commands()) text += section(*inner, path + " " + inner->name());
  return text;
}

std::string page(const Command& app) {
  std::string text = fmt::format(".TH HEADLENS 1 \"\" \"headlens {}\" \"User Commands\"\n", version());
  text += fmt::format(".SH NAME\nheadlens \\- {}\n", roff(app.description()));
  text += ".SH SYNOPSIS\n.B headlens\n\\fICOMMAND\\fR [\\fIOPTION\\fR]...\n.SH DESCRIPTION\n";
  text += fmt::format(".nf\n{}\n.fi\n.SH COMMANDS\n", roff(app.footer()));
  for (const auto& command : app.commands()) text += section(*command, "headlens " + command->name());
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

void add_man(Command& app) {
  Command& command = app.add_command("man", "Print the manual page");
  command.set_footer("Example:\n  headlens man | man -l -");
  command.set_action([&app] {
    fmt::print("{}", page(app));
    return static_cast<int>(kOk);
  });
}

}  // namespace headlens::app

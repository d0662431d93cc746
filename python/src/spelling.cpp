#include <algorithm>

#include "call.hpp"

namespace headlens::python {

std::string in_python(const Mention& mention) {
  // A parameter of another name, and an option that only the program has: Recovery.best is there without it.
  if (mention.option == "set")
    return mention.value.empty() ? "overrides" : "overrides '" + mention.value + "'";
  if (mention.option == "keep-uncertified") return on_command_line(mention);
  std::string name = mention.option;
  std::replace(name.begin(), name.end(), '-', '_');
  if (mention.value.empty()) return name;
  if (mention.value == "true") return name + "=True";
  if (mention.value == "false") return name + "=False";
  return name + "='" + mention.value + "'";
}

}  // namespace headlens::python

#include <algorithm>
#include <utility>

#include "call.hpp"

namespace headlens::python {
namespace {

thread_local ParameterNames renamed;  // by the caller that is in the library on this thread

}  // namespace

ParameterNames rename_parameters(ParameterNames names) { return std::exchange(renamed, std::move(names)); }

std::string in_python(const Mention& mention) {
  // A parameter of another name, and an option that only the program has: Recovery.best is there without it.
  if (mention.option == "set")
    return mention.value.empty() ? "overrides" : "overrides '" + mention.value + "'";
  if (mention.option == "keep-uncertified") return on_command_line(mention);
  std::string name = mention.option;
  std::replace(name.begin(), name.end(), '-', '_');
  if (const auto found = renamed.find(name); found != renamed.end()) name = found->second;
  if (mention.value.empty()) return name;
  if (mention.value == "true") return name + "=True";
  if (mention.value == "false") return name + "=False";
  return name + "='" + mention.value + "'";
}

}  // namespace headlens::python

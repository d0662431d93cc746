// Values of studies as text.
#include <fmt/format.h>

#include "headlens/study.hpp"

namespace headlens {

std::string text(const StudyValue& value) {
  return std::visit([](const auto& item) { return fmt::format("{}", item); }, value);
}

std::string name(CellStatus status) {
  constexpr const char* names[] = {"missing", "running", "done", "failed"};
  return names[static_cast<int>(status)];
}

}  // namespace headlens

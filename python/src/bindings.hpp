// One function a part of the public interface, each in the file of its name.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <string_view>
#include <utility>

#include "headlens/error.hpp"

namespace headlens::python {

namespace nb = nanobind;

void bind_options(nb::module_& module);
void bind_sets(nb::module_& module);
void bind_model(nb::module_& module);
void bind_layer(nb::module_& module);
void bind_hardness(nb::module_& module);
void bind_recover(nb::module_& module);
void bind_theory(nb::module_& module);
void bind_study(nb::module_& module);

// The value of `what` whose name() is `text`, among the first `count` values of the enumeration.
template <class Enum>
Enum choose(std::string_view what, const std::string& text, int count) {
  std::string allowed;
  for (int i = 0; i < count; ++i) {
    const auto value = static_cast<Enum>(i);
    if (name(value) == text) return value;
    allowed += (allowed.empty() ? "" : ", ") + name(value);
  }
  throw Error(ErrorCode::misuse, join(what, ": '", text, "' given, expected one of ", allowed));
}

}  // namespace headlens::python

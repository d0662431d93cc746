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
void bind_automatic(nb::module_& module);
void bind_layer(nb::module_& module);
void bind_match(nb::module_& module);
void bind_refit(nb::module_& module);
void bind_hardness(nb::module_& module);
void bind_recover(nb::module_& module);
void bind_theory(nb::module_& module);
void bind_study(nb::module_& module);

}  // namespace headlens::python

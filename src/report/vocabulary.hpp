// One name for one quantity: what axes, legends, tables, captions and verdicts call the options and
// quantities of a study.
#pragma once

#include <string>

#include "headlens/study.hpp"

namespace headlens::report {

std::string term(const std::string& name);         // "samples": "training sets"; "nmse": "error (nmse)"
std::string values_of(const std::string& axis);    // "samples": "numbers of training sets"
std::string success_of(const std::string& truth);  // "set-found": "the hidden set is found"

// A value with its unit: "64 training sets", "degree 2", "noise = 0.1"; several: "64 to 256 training sets".
std::string with_unit(const std::string& axis, const std::string& values);
std::string without_unit(const std::string& axis, const std::string& label);

// A word speaks for itself, a number needs its unit.
std::string label(const std::string& axis, const StudyValue& value);

}  // namespace headlens::report

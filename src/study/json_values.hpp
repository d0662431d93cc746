// StudyValues as JSON objects. JSON has no infinities: they are words here ("inf", "-inf", "nan").
#pragma once

#include <nlohmann/json.hpp>

#include <string>

#include "headlens/study.hpp"

namespace headlens {

std::string to_json(const StudyValues& values);
StudyValues from_json(const std::string& text);  // throws nlohmann::json::exception on anything else

}  // namespace headlens

#include "study/json_values.hpp"

#include <cmath>
#include <limits>

namespace headlens {
namespace {

using Json = nlohmann::ordered_json;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

StudyValue from_item(const Json& item) {
  if (item.is_boolean()) return item.get<bool>();
  if (item.is_number_integer()) return item.get<std::int64_t>();
  if (item.is_number()) return item.get<double>();
  const auto word = item.get<std::string>();
  if (word == "inf") return kInfinity;
  if (word == "-inf") return -kInfinity;
  if (word == "nan") return std::numeric_limits<double>::quiet_NaN();
  return word;
}

}  // namespace

std::string to_json(const StudyValues& values) {
  Json json = Json::object();
  for (const auto& [name, value] : values) {
    const auto* number = std::get_if<double>(&value);
    if (number && !std::isfinite(*number))
      json[name] = text(value);
    else
      std::visit([&, key = name](const auto& item) { json[key] = item; }, value);
  }
  return json.dump();
}

StudyValues from_json(const std::string& text) {
  StudyValues values;
  const Json json = Json::parse(text);
  for (const auto& [name, item] : json.items()) values.emplace_back(name, from_item(item));
  return values;
}

}  // namespace headlens

// Results of made-up studies, so that what a report must say is known.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "headlens/study.hpp"

namespace headlens {

using Outcome = std::function<StudyValues(const StudyValues& axes, std::uint64_t seed)>;

// Every combination of the axes, for every seed, with what `outcome` says; nothing said is a missing cell.
inline StudyResults planted(std::vector<StudyAxis> axes, std::size_t seeds, const Outcome& outcome) {
  StudyResults results;
  Study& study = results.study;
  study.name = "planted";
  study.title = "A planted study";
  study.question = "Does the report say what was planted?";
  study.axes = std::move(axes);
  study.source = "name = \"planted\"\n";
  results.command_line = "headlens study run planted.toml -o planted.db";
  for (std::size_t i = 1; i <= seeds; ++i) study.seeds.push_back(i);
  std::size_t combinations = 1;
  for (const StudyAxis& axis : study.axes) combinations *= axis.values.size();
  for (std::size_t i = 0; i < combinations; ++i)
    for (const std::uint64_t seed : study.seeds) {
      StudyCell& cell = results.cells.emplace_back();
      cell.seed = seed;
      std::size_t rest = i;
      for (const StudyAxis& axis : study.axes) {
        cell.axes.emplace_back(axis.name, axis.values[rest % axis.values.size()]);
        rest /= axis.values.size();
      }
      cell.outputs = outcome(cell.axes, seed);
      if (cell.outputs.empty()) continue;
      cell.status = CellStatus::done;
      cell.version = "0.1.0";
      cell.git_commit = "abc1234";
      cell.host = "elsewhere";
      cell.blas_core = "Haswell";
      cell.seconds = 0.5;
    }
  return results;
}

inline StudyAxis axis(std::string name, std::vector<StudyValue> values) {
  return {std::move(name), std::move(values), {}};
}

inline StudyValue value(const StudyValues& values, const std::string& name) {
  for (const auto& [key, found] : values)
    if (key == name) return found;
  return "";
}

inline double number(const StudyValues& values, const std::string& name) {
  const StudyValue found = value(values, name);
  return std::holds_alternative<double>(found) ? std::get<double>(found)
                                               : static_cast<double>(std::get<std::int64_t>(found));
}

inline std::string word(const StudyValues& values, const std::string& name) {
  return text(value(values, name));
}

}  // namespace headlens

// The options of a cell: what a study may hold or vary for each command, and what they mean together.
//
// The text of every Error thrown here has an option as its subject, so that the reader of the study file can
// name the line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "headlens/study.hpp"

namespace headlens {

enum class ValueKind { whole, real, word, flag, whole_or_word, real_or_word };

struct CellOption {
  std::string_view name;
  ValueKind kind = ValueKind::word;
  StudyValue fallback;
  std::string help = {};
  bool silent = false;  // left out of the inputs at its default: cells older than the option keep their keys
};

// In the order in which they are written into keys.
const std::vector<CellOption>& options_of(StudyCommand command);
const CellOption* find_option(StudyCommand command, std::string_view name);
// What a cell records, all of it; a study chooses what it shows. "outcome" is always shown.
const std::vector<std::string>& quantities_of(StudyCommand command);

// A whole number becomes a real one where the option is real; Error where the kind is wrong.
StudyValue convert(const CellOption& option, const StudyValue& value);

// Adds defaults, derives what is derived (count from examples-per-unknown), leaves out options that do not
// apply, refuses them if they were given, and checks the whole.
StudyValues complete_inputs(StudyCommand command, const StudyValues& given);

}  // namespace headlens

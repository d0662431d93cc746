// Theory of a cell: what theory.hpp predicts of the nmse that a study records.
#pragma once

#include <string>

#include "headlens/study.hpp"
#include "headlens/theory.hpp"

namespace headlens {

// Why theory says nothing about a cell of these inputs, as "option: reason"; "" if it does.
std::string why_no_theory(StudyCommand command, const StudyValues& inputs);

// The options of evaluate_theory() for such a cell, with its one number of samples.
TheoryOptions theory_options(const StudyValues& inputs);

}  // namespace headlens

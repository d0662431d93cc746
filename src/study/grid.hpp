// From a study to its cells.
//
// The key of a cell is the 128-bit FNV-1a hash, in hex, of a text that holds everything that decides its
// outcome:
//
//   headlens cell 1        the meaning of cells: raised when the same inputs would give other numbers
//   command fit
//   task power-mean        every option that applies, defaults included, in the order of options_of()
//   ..
//   seed 3
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "headlens/study.hpp"

namespace headlens {

constexpr int kCellFormat = 1;
constexpr Index kMostCells = 100000;

double cell_count(const Study& study);

// Calls with the index of the value on each axis; the last axis varies fastest.
void for_each_choice(const Study& study, const std::function<void(const std::vector<std::size_t>&)>& visit);

// What the study itself gives: fixed options and those of the chosen values.
StudyValues given_inputs(const Study& study, const std::vector<std::size_t>& choice);

// All cells, `missing`, seeds fastest. Cells of equal inputs have equal keys.
std::vector<StudyCell> make_cells(const Study& study);

std::string canonical_text(StudyCommand command, const StudyValues& inputs, std::uint64_t seed);
std::string cell_key(const std::string& canonical);

}  // namespace headlens

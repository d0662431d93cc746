// The numbers of figures and findings in words, rows and columns.
#pragma once

#include <string>
#include <vector>

#include "report/draw/figures.hpp"
#include "report/finding.hpp"

namespace headlens::report {

std::string csv(const FigureData& data);
std::string caption(const FigureData& data);  // plain text, generated from the numbers

std::string number_table(const FigureData& data);  // HTML: a row a curve, a column an x
std::string theory_table(const FigureData& data);  // measured over predicted, with prediction and bound
std::string growth_table(const FigureData& data);  // fitted growth, then medians with the share that succeeds
std::string sample_size_table(const FigureData& data);
std::string comparison_table(const Comparison& comparison);

}  // namespace headlens::report

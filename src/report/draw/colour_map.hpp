// The colours of cells that show a number from 0 to 1, the same in light and in dark.
#pragma once

#include <string>

namespace headlens::report {

// From dark blue over green to yellow in even steps of lightness, so that the order shows without colour.
std::string shade(double share);
// Near white and near black that no theme turns over: the cell keeps its colour in the dark.
std::string ink_on(double share);

}  // namespace headlens::report

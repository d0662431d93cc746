// The figure of a study that asks for none.
#pragma once

#include "headlens/study.hpp"

namespace headlens::report {

// The error, or what else was recorded, along the axis that matters most, a line per model or else per value
// of the first other axis; a grid of shares where the quantity says yes or no, and of medians where no axis
// has numbers.
FigureSpec default_figure(const Study& study);

}  // namespace headlens::report

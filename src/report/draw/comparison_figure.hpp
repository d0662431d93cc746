// The small figure beside a finding: the factor that the finding judges, with its interval, along x.
#pragma once

#include "report/draw/canvas.hpp"
#include "report/finding.hpp"

namespace headlens::report {

bool can_draw(const Comparison& comparison);  // some seed has finished on both sides
Canvas draw_comparison(const Comparison& comparison);

}  // namespace headlens::report

// The [[figure]] and [[finding]] tables of a study file.
#pragma once

#include "headlens/study.hpp"
#include "study/toml_section.hpp"

namespace headlens {

// Into `study`, whose axes and record are known. Axes, quantities and values that do not exist are refused.
void read_figures(const Section& top, Study& study);
void read_findings(const Section& top, Study& study);

}  // namespace headlens

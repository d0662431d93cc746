// One cell: random data from its seed, one call, the numbers.
#pragma once

#include "headlens/execution.hpp"
#include "headlens/study.hpp"

namespace headlens {

struct CellResult {
  StudyValues outputs;  // all of quantities_of(command), in that order
  std::uint64_t peak_bytes = 0;
};

// A fit without a model is an Error that says why; a layer that does not come back is a result.
CellResult run_cell(StudyCommand command, const StudyValues& inputs, std::uint64_t seed,
                    const Execution& execution);

}  // namespace headlens

// run_study_over_ranks (headlens/study.hpp) over given ranks.
#pragma once

#include <filesystem>

#include "comm/communicator.hpp"
#include "headlens/study.hpp"

namespace headlens {

// `store` may be another place on every rank: that of machines with disks of their own.
RunSummary run_study_over(comm::Communicator& ranks, const Study& study, const std::filesystem::path& store,
                          const RunOptions& options, const Execution& execution);

}  // namespace headlens

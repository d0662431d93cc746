// How a call runs.
#include "headlens/execution.hpp"
#include "headlens/study.hpp"
#include "options/table.hpp"

namespace headlens {

template <>
const std::vector<Option<Execution>>& options_of<Execution>() {
  using O = Execution;
  static const std::vector<Option<O>> rows = options::table<O>({
      {{.name = "threads",
        .shown = "T",
        .help = "threads to use; never changes a result",
        .unset = "all cores",
        .range = from_to(1, 4096)},
       &O::threads},
      {{.name = "max-memory",
        .shown = "SIZE",
        .help = "memory to stay within, as 800M or 8G",
        .unset = "80% of what is free"},
       {}},
      {{.name = "backend", .help = "the machine that computes (`headlens info` lists them)"},
       options::choice<&O::backend>()},
  });
  return rows;
}

template <>
const std::vector<Option<RunOptions>>& options_of<RunOptions>() {
  using O = RunOptions;
  static const std::vector<Option<O>> rows = options::table<O>({
      {{.name = "jobs",
        .shown = "J",
        .help = "cells at a time, each with its share of threads and memory",
        .unset = "one per thread",
        .range = from_to(1, 4096)},
       &O::jobs},
      {{.name = "shard",
        .shown = "I/N",
        .help = "part I of N of the cells, for one machine of N; 'study merge' joins their stores"},
       &O::shard},
      {{.name = "retry-failed", .help = "run failed cells again"}, &O::retry_failed},
  });
  return rows;
}

HEADLENS_OPTIONS(Execution)
HEADLENS_OPTIONS(RunOptions)

}  // namespace headlens

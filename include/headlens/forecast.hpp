// What a fit on many ranks would take, before anyone rents the machines: bytes per rank and seconds per
// phase. Bytes are counted. Seconds come from a trial of about a second on this machine, on a small problem
// of the same kind, scaled by the operations of each phase: they hold for ranks like this machine, each with
// the threads of the trial.
#pragma once

#include <string>
#include <vector>

#include "headlens/execution.hpp"
#include "headlens/fit.hpp"

namespace headlens {

struct ForecastOptions {
  double count = 1e6;  // sets
  int ranks = 1;
  Index dim = 16, keys = 16, outputs = 1;
  double bandwidth = 1e9;  // bytes per second between two ranks
  FitOptions fit;          // squared loss

  void validate() const;
};

struct ForecastPart {
  std::string name;
  double value = 0;  // bytes or seconds
};

struct Forecast {
  std::string route;                 // "primal", "dual" or "kernel"
  std::vector<ForecastPart> memory;  // bytes per rank, at the peak
  std::vector<ForecastPart> phases;  // seconds
  double exchanged_bytes = 0;        // handed over by every rank
  double trial_seconds = 0;

  double bytes() const;
  double seconds() const;
};

[[nodiscard]] Forecast forecast_fit(const ForecastOptions& options, const Execution& execution);

}  // namespace headlens

// Seconds of the phases of a recovery, by name: a phase that is entered again adds up.
#pragma once

#include "recover/candidate.hpp"

namespace headlens::recovery {

inline void add_seconds(Certificate& certificate, const std::string& name, double seconds) {
  for (Phase& phase : certificate.phases)
    if (phase.name == name) {
      phase.seconds += seconds;
      return;
    }
  certificate.phases.push_back({name, seconds});
}

// What work() returns, as a part of the phase.
template <class Work>
auto timed_in(Certificate& certificate, const std::string& name, Work&& work) {
  double seconds = 0;
  auto result = timed(seconds, work);
  add_seconds(certificate, name, seconds);
  return result;
}

}  // namespace headlens::recovery

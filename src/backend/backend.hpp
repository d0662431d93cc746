// The seam between algorithms and machines. What is large (features, Gram matrices, attention of all
// examples) stays inside a back end; what is small (targets, coefficients, heads) crosses as plain host
// values. Fits, recoveries, kernels and studies are written once, against these interfaces, and never include
// a back end's folder.
//
// Same back end, same seed: same bytes, whatever the threads. Between back ends results agree to rounding.
#pragma once

#include <string_view>
#include <vector>

#include "headlens/execution.hpp"
#include "headlens/info.hpp"

namespace headlens::backend {

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;  // as in `headlens info`, models and certificates
};

// What one call runs on. References outlive the call.
struct Context {
  Backend& machine;
  int threads = 1;
  const Execution& execution;
};

// The back end that the execution asks for. Error if the back end is absent, with the way to get it.
Context context_of(const Execution& execution);

// All that this build knows of, with the reason where one is absent.
std::vector<BackendInfo> backends();

// Every call runs on `machine` while this lives. For tests, which bring back ends of their own.
class Replacement {
 public:
  explicit Replacement(Backend& machine);
  ~Replacement();
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

 private:
  Backend* before_;
};

}  // namespace headlens::backend

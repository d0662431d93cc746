#include <string>

#include "backend/backend.hpp"
#include "base/parallel.hpp"
#include "headlens/error.hpp"

namespace headlens {

namespace cpu {
backend::Backend& processor();  // src/cpu, which this folder does not include
}

namespace distributed {
backend::Backend& sharded(backend::Backend& own, comm::Communicator& ranks);  // src/distributed, likewise
}

namespace backend {
namespace {

Backend* replacement = nullptr;

BackendInfo cuda_info() {
  return {"cuda", false, "this build of headlens has no CUDA back end: leave the option out, or ask for cpu"};
}

}  // namespace

std::vector<BackendInfo> backends() { return {{"cpu", true, "always there"}, cuda_info()}; }

Context context_of(const Execution& execution) {
  const int threads = thread_count(execution);
  comm::Communicator& ranks = comm::world();
  if (replacement) return {*replacement, threads, execution, ranks};
  if (execution.backend == BackendChoice::cuda) {
    const BackendInfo info = cuda_info();
    require(info.available, option("backend"), ": cuda given: ", info.reason);
  }
  Backend& own = cpu::processor();
  return {ranks.alone() ? own : distributed::sharded(own, ranks), threads, execution, ranks};
}

Replacement::Replacement(Backend& machine) : before_(replacement) { replacement = &machine; }
Replacement::~Replacement() { replacement = before_; }

}  // namespace backend
}  // namespace headlens

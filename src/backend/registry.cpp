#include <string>

#include "backend/backend.hpp"
#include "backend/plugin.hpp"
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

// Loaded once, when somebody first asks.
const Plugin& cuda_plugin() {
  static const Plugin plugin = load_plugin("libheadlens_cuda.so");
  return plugin;
}

BackendInfo cuda_info() { return {"cuda", cuda_plugin().machine != nullptr, cuda_plugin().words}; }

}  // namespace

std::vector<BackendInfo> backends() { return {{"cpu", true, "always there"}, cuda_info()}; }

Backend& cuda_machine() {
  if (replacement) return *replacement;
  const BackendInfo info = cuda_info();
  require(info.available, option("backend"), ": cuda given: ", info.reason);
  return *cuda_plugin().machine;
}

Context context_of(const Execution& execution) {
  const int threads = thread_count(execution);
  comm::Communicator& ranks = comm::world();
  if (replacement) return {*replacement, threads, execution, ranks};
  if (execution.backend == BackendChoice::cuda) {
    Backend& machine = cuda_machine();
    require(ranks.alone(), option("backend"), ": cuda given on ", ranks.size(),
            " ranks, expected cpu: the device works for one process");
    return {machine, threads, execution};
  }
  Backend& own = cpu::processor();
  return {ranks.alone() ? own : distributed::sharded(own, ranks), threads, execution, ranks};
}

Replacement::Replacement(Backend& machine) : before_(replacement) { replacement = &machine; }
Replacement::~Replacement() { replacement = before_; }

}  // namespace backend
}  // namespace headlens

#include <string>

#include "backend/backend.hpp"
#include "backend/plugin.hpp"
#include "base/parallel.hpp"
#include "headlens/error.hpp"

namespace headlens {

std::string_view name(BackendChoice choice) {
  switch (choice) {
    case BackendChoice::automatic:
      return "auto";
    case BackendChoice::cpu:
      return "cpu";
    case BackendChoice::cuda:
      return "cuda";
  }
  return "auto";
}

namespace cpu {
backend::Backend& processor();  // src/cpu, which this folder does not include
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

Context context_of(const Execution& execution) {
  const int threads = thread_count(execution);
  if (replacement) return {*replacement, threads, execution};
  if (execution.backend == BackendChoice::cuda) {
    const BackendInfo info = cuda_info();
    require(info.available, option("backend"), ": cuda given: ", info.reason);
    return {*cuda_plugin().machine, threads, execution};
  }
  return {cpu::processor(), threads, execution};
}

Replacement::Replacement(Backend& machine) : before_(replacement) { replacement = &machine; }
Replacement::~Replacement() { replacement = before_; }

}  // namespace backend
}  // namespace headlens

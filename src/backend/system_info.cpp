#include "backend/backend.hpp"
#include "base/cpu.hpp"
#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "headlens/info.hpp"
#include "linalg/blas_core.hpp"

namespace headlens {

SystemInfo system_info(const Execution& execution) {
  const BlasInfo blas = blas_info();
  SystemInfo info;
  info.version = version();
  info.commit = commit();
  info.compiler = compiler();
  info.blas_library = blas.library;
  info.blas_core = blas.core;
  info.blas_core_fits = blas.core_fits;
  info.simd = name(simd_level());
  info.threads = thread_count(execution);
  info.free_memory_bytes = free_memory_bytes();
  info.max_memory_bytes = MemoryBudget(execution).limit_bytes();
  info.backends = backend::backends();
  return info;
}

}  // namespace headlens

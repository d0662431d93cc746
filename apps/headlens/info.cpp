// headlens info: what this build is and what it runs on.
#include <fmt/format.h>

#include <memory>

#include "command.hpp"
#include "headlens/info.hpp"
#include "headlens/ranks.hpp"

namespace headlens::app {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

int run(const CommonOptions& common) {
  const SystemInfo info = system_info(common.execution());
  Json backends = Json::array();
  std::string lines;
  for (const BackendInfo& backend : info.backends) {
    backends.push_back(
        {{"name", backend.name}, {"available", backend.available}, {"reason", backend.reason}});
    lines += fmt::format("\nback end    {}: {}{}", backend.name,
                         backend.available ? "" : "not available: ", backend.reason);
  }
  const MpiInfo mpi = mpi_info();
  lines += fmt::format("\nMPI         {}{}", mpi.available ? "" : "not available: ", mpi.reason);
  const Json json{{"version", info.version},
                  {"commit", info.commit},
                  {"compiler", info.compiler},
                  {"blas_library", info.blas_library},
                  {"blas_core", info.blas_core},
                  {"blas_core_fits", info.blas_core_fits},
                  {"simd", info.simd},
                  {"threads", info.threads},
                  {"free_memory_bytes", info.free_memory_bytes},
                  {"max_memory_bytes", info.max_memory_bytes},
                  {"backends", backends},
                  {"mpi", {{"available", mpi.available}, {"reason", mpi.reason}}}};
  print(common, json,
        fmt::format("headlens    {} ({})\ncompiler    {}\nBLAS        {}\nBLAS core   {}{}\nfeature map {}\n"
                    "threads     {}\nmemory      {:.1f} GiB free, {:.1f} GiB may be used{}",
                    info.version, info.commit, info.compiler, info.blas_library, info.blas_core,
                    info.blas_core_fits ? "" : " (too slow for this processor: set OPENBLAS_CORETYPE)",
                    info.simd, info.threads, static_cast<double>(info.free_memory_bytes) / kGiB,
                    static_cast<double>(info.max_memory_bytes) / kGiB, lines));
  return kOk;
}

}  // namespace

void add_info(Command& app) {
  auto common = std::make_shared<CommonOptions>();
  Command& command =
      app.add_command("info", "Show version, BLAS core, SIMD level, threads, memory and back ends");
  add_unused_seed(command, *common, "accepted everywhere");
  add_common_options(command, *common);
  command.set_footer("Example:\n  headlens info --json");
  command.set_action([common] { return run(*common); });
}

}  // namespace headlens::app

#include "comm/plugin.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "base/parallel.hpp"
#include "headlens/error.hpp"
#include "headlens/info.hpp"

namespace headlens::comm {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "libheadlens_mpi.so";

// A whole number above 0, or 0.
int number_of(const char* variable) {
  const char* text = std::getenv(variable);
  return text ? std::max(0, std::atoi(text)) : 0;
}

fs::path plugin_path() {
  std::error_code none;
  const fs::path program = fs::read_symlink("/proc/self/exe", none);
  for (const fs::path& place : {program.parent_path(), program.parent_path().parent_path() / "lib/headlens"})
    if (fs::exists(place / kFile, none)) return place / kFile;
  return {};
}

}  // namespace

std::string handshake() { return version() + " " + commit() + " " + compiler(); }

int announced_ranks() {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const int size = number_of(variable)) return size;
  // srun with PMIx names the rank only.
  return std::getenv("PMIX_RANK") ? std::max(1, number_of("SLURM_NTASKS")) : 1;
}

int announced_rank() {
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"})
    if (std::getenv(variable)) return number_of(variable);
  return 0;
}

PluginInfo plugin_info() {
  const fs::path path = plugin_path();
  if (!path.empty()) return {true, path.string()};
  return {false, join("this build of headlens has no ", kFile,
                      ": install Open MPI and ScaLAPACK (scripts/setup mpi) and build again")};
}

std::unique_ptr<Communicator> open_plugin() {
  const auto refuse = [](const std::string& why) { throw Error(ErrorCode::environment, why); };
  const PluginInfo info = plugin_info();
  if (!info.available) refuse(join("mpirun started ", announced_ranks(), " processes, but ", info.reason));
  // Open MPI loads parts of itself later, which look for its symbols among the global ones.
  void* library = dlopen(info.reason.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) refuse(join("cannot load ", info.reason, ": ", dlerror()));
  const auto open = reinterpret_cast<OpenRanks>(dlsym(library, kOpenRanks));
  if (open == nullptr) refuse(join(info.reason, " is no plugin of headlens"));
  std::string refusal;
  std::unique_ptr<Communicator> ranks(open(handshake().c_str(), &headlens::heed, &refusal));
  if (!ranks) refuse(join(info.reason, ": ", refusal));
  return ranks;
}

}  // namespace headlens::comm

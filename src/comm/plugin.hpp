// MPI as a plugin: the program itself does not need MPI. `libheadlens_mpi.so` lies beside the program, or in
// ../lib/headlens of its folder, and is loaded when mpirun started this process with others.
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.hpp"

namespace headlens::comm {

// What a plugin is asked for. Both sides must come from one build: the text of the handshake has to be equal.
using Heeding = void (*)();  // throws if this rank is to stop
using OpenRanks = Communicator* (*)(const char* handshake, Heeding heeding, std::string* refusal);
inline constexpr const char* kOpenRanks = "headlens_mpi_open";
std::string handshake();

// Ranks that mpirun or srun says it started; 1 without either. And which of them this is, before MPI runs.
int announced_ranks();
int announced_rank();

struct PluginInfo {
  bool available = false;
  std::string reason;  // the path, or what is missing and how to get it
};
PluginInfo plugin_info();

std::unique_ptr<Communicator> open_plugin();  // Error if there is none
}  // namespace headlens::comm

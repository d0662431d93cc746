// What the program finds in libheadlens_mpi.so.
#include "comm/plugin.hpp"
#include "mpi/mpi_communicator.hpp"

extern "C" headlens::comm::Communicator* headlens_mpi_open(const char* handshake,
                                                           headlens::comm::Heeding heeding,
                                                           std::string* refusal) {
  if (handshake != headlens::comm::handshake()) {
    *refusal = "it comes from another build of headlens (" + headlens::comm::handshake() + ")";
    return nullptr;
  }
  return new headlens::mpi::MpiCommunicator(heeding);
}

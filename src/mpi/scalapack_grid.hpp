// The dense factorisations of ScaLAPACK on all ranks of a communicator.
#pragma once

#include <mpi.h>

#include <memory>

#include "comm/communicator.hpp"

namespace headlens::mpi {

std::unique_ptr<comm::Grid> make_scalapack_grid(MPI_Comm comm);

}  // namespace headlens::mpi

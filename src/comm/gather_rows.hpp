// Arrays whose rows lie on several ranks, one after the other.
#pragma once

#include "comm/communicator.hpp"
#include "headlens/array.hpp"

namespace headlens::comm {

Array gather_rows(const Array& part, Communicator& ranks);           // all rows, on every rank
Array gather_rows_on_first(const Array& part, Communicator& ranks);  // on rank 0; elsewhere no rows

}  // namespace headlens::comm

// Arrays whose rows lie on several ranks, one after the other.
#pragma once

#include "comm/communicator.hpp"
#include "headlens/array.hpp"

namespace headlens::comm {

Array gather_rows(const Array& part, Communicator& ranks);           // all rows, on every rank
Array gather_rows_on_first(const Array& part, Communicator& ranks);  // on rank 0; elsewhere no rows
// Rows of to[r] go to rank r; back come the rows for this one, in order of the ranks they come from.
Array exchange_rows(const std::vector<Array>& to, Communicator& ranks);

}  // namespace headlens::comm

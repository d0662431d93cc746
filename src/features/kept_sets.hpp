// The sets that a model with infinitely many heads keeps.
#pragma once

#include <vector>

#include "comm/communicator.hpp"
#include "headlens/model.hpp"
#include "headlens/sets.hpp"

namespace headlens {

// The sets numbered `chosen`, in the precision of the features, with positions added to the keys: rectangular
// if all of `sets` have one size, else ragged.
Support make_support(const Sets& sets, const std::vector<Index>& chosen, const FeatureOptions& features);

// The same over ranks: `sets` are a part of the whole, `chosen` numbers of the whole in increasing order. On
// every rank, or on rank 0, and elsewhere no sets.
enum class Where { everywhere, first };
Support gather_support(const Sets& sets, const std::vector<Index>& chosen, const FeatureOptions& features,
                       Where where, comm::Communicator& ranks);
// Every rank gets the sets of the whole that it wants: wanted[r], in increasing order, on all ranks the same.
Support exchange_support(const Sets& sets, const std::vector<std::vector<Index>>& wanted,
                         const FeatureOptions& features, comm::Communicator& ranks);

// The same as sets; they need no positions any more.
Sets sets_of(const Support& support);

}  // namespace headlens

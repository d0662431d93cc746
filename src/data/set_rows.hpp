// Where the tokens of a set lie in the arrays that hold them: one answer for the host and for kernels of a
// device, which is why nothing here needs more than arithmetic.
#pragma once

#include <limits>

#include "headlens/sets.hpp"

namespace headlens {

struct SetRows {
  Index query = 0;                                   // its row in the array of queries
  Index keys = 0;                                    // the row of the first key in the array of keys
  Index before = std::numeric_limits<Index>::max();  // keys of a sequence before the query, which parts them

  // Key k: its place in the sequence (of other sets k itself), and its row.
  constexpr Index position(Index k) const { return k < before ? k : k + 1; }
  constexpr Index key(Index k) const { return keys + position(k); }
};

struct SetLayout {
  Index keys = 0;      // of every set; 0: ragged
  Index sequence = 0;  // tokens of a sequence; 0: no sequences
  bool query_first = false;

  // first_key: of a ragged set, its first row of keys.
  constexpr SetRows rows_of(Index set, Index first_key) const {
    if (sequence > 0) return {set, set - set % sequence, set % sequence};
    if (query_first) return {set * (1 + keys), set * (1 + keys) + 1};
    return {set, keys > 0 ? set * keys : first_key};
  }
};

inline SetLayout layout_of(const Sets& sets) {
  return {sets.offsets().empty() ? sets.keys_of(0) : 0, sets.sequence_length(), sets.is_query_first()};
}

inline SetRows rows_of(const Sets& sets, Index set) {
  const auto at = static_cast<std::size_t>(set);
  return layout_of(sets).rows_of(set, sets.offsets().empty() ? 0 : sets.offsets()[at]);
}

// The array that the rows of keys are those of.
inline const Array& keys_array(const Sets& sets) {
  return sets.is_sequence() || sets.is_query_first() ? sets.query() : sets.keys();
}

}  // namespace headlens

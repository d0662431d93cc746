// What arrays must fulfil to be sets: checked by Sets on the arrays, by SetReader on headers and blocks.
// Errors begin with `name`, a file usually.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headlens/array.hpp"
#include "headlens/error.hpp"

namespace headlens {

// An array as its header announces it.
struct Form {
  DType type = DType::f64;
  std::vector<Index> shape;
};
inline Form form_of(const Array& array) { return {array.dtype(), array.shape()}; }

// The array of this name among those of a file.
template <class Arrays>
auto& require_array(Arrays& arrays, const std::string& key, const std::string& name) {
  const auto found = arrays.find(key);
  if (found != arrays.end()) return found->second;
  std::string present;
  for (const auto& entry : arrays) present += (present.empty() ? "" : ", ") + entry.first;
  throw Error(ErrorCode::misuse, join(name, ": array '", key,
                                      "' is missing (found: ", present.empty() ? "nothing" : present, ")"));
}

// Error if a file of sets seems to hold a sequence.
template <class Arrays>
void check_is_no_sequence(const Arrays& arrays, const std::string& name) {
  require(!arrays.contains("tokens") || arrays.contains("query"), name,
          ": holds 'tokens' but no 'query': is it a sequence (", option("sequence", "true"), ")?");
}

void check_rectangular(const Form& query, const Form& keys, const std::string& name);
void check_ragged(const Form& query, const Form& keys, const std::vector<std::int64_t>& offsets,
                  const std::string& name);
void check_tokens(const Form& tokens, const std::string& name);    // (n, 1 + N, d), the query first
void check_sequence(const Form& tokens, const std::string& name);  // (n, L, d)

// Integers, none negative.
std::vector<std::int64_t> offsets_from(const Array& array, const std::string& name);

// y of `count` sets, in sequences of `sequence_length` if that is not 0.
void check_targets(const std::vector<Index>& shape, Index count, Index sequence_length,
                   const std::string& name);
// `first`: number of the first value.
void check_target_range(const std::vector<double>& values, Index first, const std::string& name);

// No NaN, no inf. `first_row`: number of the first row, where `array` is a block of a larger one.
void check_finite(const Array& array, const std::string& name, const char* what, Index first_row = 0);

}  // namespace headlens

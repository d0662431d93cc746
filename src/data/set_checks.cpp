#include "data/set_checks.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "headlens/device_memory.hpp"
#include "headlens/error.hpp"

namespace headlens {
namespace {

void check_numbers(const Form& array, const std::string& name, const char* what) {
  require(array.type != DType::boolean, name, ": ", what, " is ", headlens::name(array.type), " ",
          format_shape(array.shape), ", expected numbers");
}

void check_query(const std::vector<Index>& shape, const std::string& name) {
  require(shape.size() == 2, name, ": query has shape ", format_shape(shape), ", expected (n, d)");
  require(shape[0] > 0, name, ": there are no sets (query has shape ", format_shape(shape), ")");
  require(shape[1] > 0, name, ": tokens have no coordinates (query has shape ", format_shape(shape), ")");
}

void check_offsets(const std::vector<std::int64_t>& offsets, Index count, Index total,
                   const std::string& name) {
  require(static_cast<Index>(offsets.size()) == count + 1, name, ": offsets has ", offsets.size(),
          " entries, expected ", count + 1, " for ", count, " queries");
  require(offsets.front() == 0, name, ": offsets[0] is ", offsets.front(), ", expected 0");
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i)
    require(offsets[i] < offsets[i + 1], name, ": offsets[", i, "] is ", offsets[i], " and offsets[", i + 1,
            "] is ", offsets[i + 1], ", but every set needs at least one key");
  require(offsets.back() == total, name, ": offsets end at ", offsets.back(), ", but keys has ", total,
          " rows");
}

// Index of the first value that is not finite, or `size`. A chunk at a time, by the exponent alone: all ones
// mean NaN or inf, and bits can be collected without a branch.
template <class T, class Bits>
Index first_non_finite(const T* values, Index size, Bits exponent) {
  constexpr Index chunk = 256;
  Index begin = 0;
  for (; begin + chunk <= size; begin += chunk) {
    Bits found = 0;
    for (Index i = begin; i < begin + chunk; ++i)
      found |= static_cast<Bits>((std::bit_cast<Bits>(values[i]) & exponent) == exponent);
    if (found != 0) break;
  }
  for (; begin < size; ++begin)
    if (!std::isfinite(values[begin])) break;
  return begin;
}

template <class T, class Bits>
Index first_non_finite(const Array& array, Bits exponent) {
  if (array.device()) return array.device()->first_non_finite(array.dtype(), array.size());
  return first_non_finite(array.data<T>(), array.size(), exponent);
}

double value_at(const Array& array, Index flat) {
  if (!array.device()) return array.at(flat);
  const std::size_t item = item_bytes(array.dtype());
  Array one(array.dtype(), {1});
  array.device()->fetch({{static_cast<std::size_t>(flat) * item, item}}, one.raw());
  return one.at(0);
}

std::string position_in(const Array& array, Index flat, Index first_row) {
  std::vector<Index> at(static_cast<std::size_t>(array.rank()));
  for (Index axis = array.rank() - 1; axis >= 0; --axis) {
    at[static_cast<std::size_t>(axis)] = flat % array.dim(axis);
    flat /= array.dim(axis);
  }
  at[0] += first_row;
  std::string text = "[";
  for (std::size_t i = 0; i < at.size(); ++i) text += (i ? ", " : "") + std::to_string(at[i]);
  return text + "]";
}

}  // namespace

void check_rectangular(const Form& query, const Form& keys, const std::string& name) {
  check_numbers(query, name, "query");
  check_numbers(keys, name, "keys");
  check_query(query.shape, name);
  const auto& shape = keys.shape;
  require(shape.size() == 3, name, ": keys has shape ", format_shape(shape),
          ", expected (n, N, d), or (total, d) with offsets");
  require(shape[0] == query.shape[0] && shape[2] == query.shape[1], name, ": query has shape ",
          format_shape(query.shape), " but keys has shape ", format_shape(shape), ", expected (",
          query.shape[0], ", N, ", query.shape[1], ")");
  require(shape[1] > 0, name, ": keys has shape ", format_shape(shape),
          ", but every set needs at least one key");
}

void check_ragged(const Form& query, const Form& keys, const std::vector<std::int64_t>& offsets,
                  const std::string& name) {
  check_numbers(query, name, "query");
  check_numbers(keys, name, "keys");
  check_query(query.shape, name);
  require(keys.shape.size() == 2, name, ": keys has shape ", format_shape(keys.shape),
          ", expected (total, d) beside offsets");
  require(keys.shape[1] == query.shape[1], name, ": queries have ", query.shape[1],
          " coordinates but keys have ", keys.shape[1]);
  check_offsets(offsets, query.shape[0], keys.shape[0], name);
}

void check_tokens(const Form& tokens, const std::string& name) {
  check_numbers(tokens, name, "tokens");
  const auto& shape = tokens.shape;
  require(shape.size() == 3, name, ": tokens has shape ", format_shape(shape),
          ", expected (n, 1 + N, d), the query first");
  require(shape[0] > 0 && shape[2] > 0, name, ": tokens is empty, shape ", format_shape(shape));
  require(shape[1] > 1, name, ": tokens has shape ", format_shape(shape),
          ", but a set needs at least two tokens (one query, one key)");
}

void check_sequence(const Form& tokens, const std::string& name) {
  check_numbers(tokens, name, "tokens");
  const auto& shape = tokens.shape;
  require(shape.size() == 3, name, ": tokens has shape ", format_shape(shape), ", expected (n, L, d)");
  require(shape[0] > 0 && shape[2] > 0, name, ": tokens is empty, shape ", format_shape(shape));
  require(shape[1] > 1, name, ": tokens has shape ", format_shape(shape),
          ", but a sequence needs at least two tokens (one query, one key)");
}

std::vector<std::int64_t> offsets_from(const Array& array, const std::string& name) {
  const bool floating = array.is_float() || array.dtype() == DType::boolean;
  require(!floating && array.rank() == 1, name, ": offsets is ", array.describe(),
          ", expected integers (n + 1,)");
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(array.size()));
  for (Index i = 0; i < array.size(); ++i) {
    const double value = array.at(i);
    require(value >= 0 && value < 0x1p53, name, ": offsets[", i, "] is ", value, ", expected a row of keys");
    offsets[static_cast<std::size_t>(i)] = static_cast<std::int64_t>(value);
  }
  return offsets;
}

void check_targets(const std::vector<Index>& shape, Index count, Index sequence_length,
                   const std::string& name) {
  std::vector<Index> leading{count};
  if (sequence_length > 0) leading = {count / sequence_length, sequence_length};
  const auto lead = leading.size();
  const bool fits = shape.size() >= lead && shape.size() <= lead + 1 &&
                    std::equal(leading.begin(), leading.end(), shape.begin());
  require(fits, name, ": y has shape ", format_shape(shape), ", expected ", format_shape(leading),
          " or the same with a last axis of q outputs, for ", count, " sets");
  require(shape.size() == lead || shape.back() > 0, name, ": y has shape ", format_shape(shape),
          ", but at least one output is needed");
}

void check_target_range(const std::vector<double>& values, Index first, const std::string& name) {
  constexpr double kLargest = 1e150;  // sums of squares stay finite
  for (std::size_t i = 0; i < values.size(); ++i)
    require(std::abs(values[i]) <= kLargest, name, ": y[", first + static_cast<Index>(i), "] is ", values[i],
            ", expected finite values of at most ", kLargest);
}

void check_finite(const Array& array, const std::string& name, const char* what, Index first_row) {
  const Index at = array.dtype() == DType::f32
                       ? first_non_finite<float>(array, std::uint32_t{0x7f800000})
                       : first_non_finite<double>(array, std::uint64_t{0x7ff0000000000000});
  if (at < array.size())
    throw Error(ErrorCode::misuse, join(name, ": ", what, position_in(array, at, first_row), " is ",
                                        value_at(array, at), ", expected finite values, no NaN or inf"));
}

}  // namespace headlens

#include "headlens/sets.hpp"

#include <algorithm>
#include <cmath>

#include "headlens/error.hpp"

namespace headlens {
namespace {

Array as_floating(Array array, const std::string& name, const char* what) {
  require(array.dtype() != DType::boolean, name, ": ", what, " is ", array.describe(), ", expected numbers");
  if (array.is_float()) return array;
  Array out(DType::f64, array.shape());
  for (Index i = 0; i < array.size(); ++i) out.data<double>()[i] = array.at(i);
  return out;
}

// Index of the first value that is not finite, or -1.
template <class T>
Index first_non_finite(const T* values, Index size) {
  for (Index i = 0; i < size; ++i)
    if (!std::isfinite(values[i])) return i;
  return -1;
}

std::string position_in(const Array& array, Index flat) {
  std::vector<Index> at(static_cast<std::size_t>(array.rank()));
  for (Index axis = array.rank() - 1; axis >= 0; --axis) {
    at[static_cast<std::size_t>(axis)] = flat % array.dim(axis);
    flat /= array.dim(axis);
  }
  std::string text = "[";
  for (std::size_t i = 0; i < at.size(); ++i) text += (i ? ", " : "") + std::to_string(at[i]);
  return text + "]";
}

void require_finite(const Array& array, const std::string& name, const char* what) {
  const Index at = array.dtype() == DType::f32 ? first_non_finite(array.data<float>(), array.size())
                                               : first_non_finite(array.data<double>(), array.size());
  if (at >= 0)
    throw Error(ErrorCode::misuse, join(name, ": ", what, position_in(array, at), " is ", array.at(at),
                                        ", expected finite values, no NaN or inf"));
}

void check_query(const Array& query, const std::string& name) {
  require(query.rank() == 2, name, ": query has shape ", format_shape(query.shape()), ", expected (n, d)");
  require(query.dim(0) > 0, name, ": there are no sets (query has shape ", format_shape(query.shape()), ")");
  require(query.dim(1) > 0, name, ": tokens have no coordinates (query has shape ",
          format_shape(query.shape()), ")");
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

template <class From, class To>
void copy_row(const From* from, To* to, Index count) {
  for (Index j = 0; j < count; ++j) to[j] = static_cast<To>(from[j]);
}

template <class From, class To>
void copy_rows(const From* from, Index rows, Index dim, To* to, Index stride) {
  for (Index i = 0; i < rows; ++i) copy_row(from + i * dim, to + i * stride, dim);
}

}  // namespace

Sets Sets::from_arrays(Array query, Array keys, std::string name) {
  Sets sets;
  sets.name_ = std::move(name);
  sets.query_ = as_floating(std::move(query), sets.name_, "query");
  sets.keys_ = as_floating(std::move(keys), sets.name_, "keys");
  check_query(sets.query_, sets.name_);
  const auto& shape = sets.keys_.shape();
  require(shape.size() == 3, sets.name_, ": keys has shape ", format_shape(shape),
          ", expected (n, N, d), or (total, d) with offsets");
  require(shape[0] == sets.query_.dim(0) && shape[2] == sets.query_.dim(1), sets.name_, ": query has shape ",
          format_shape(sets.query_.shape()), " but keys has shape ", format_shape(shape), ", expected (",
          sets.query_.dim(0), ", N, ", sets.query_.dim(1), ")");
  require(shape[1] > 0, sets.name_, ": keys has shape ", format_shape(shape),
          ", but every set needs at least one key");
  sets.count_ = shape[0];
  sets.dim_ = shape[2];
  sets.keys_per_set_ = sets.max_keys_ = shape[1];
  sets.total_keys_ = shape[0] * shape[1];
  sets.check_finite();
  return sets;
}

Sets Sets::from_tokens(Array tokens, std::string name) {
  Sets sets;
  sets.name_ = std::move(name);
  sets.query_ = as_floating(std::move(tokens), sets.name_, "tokens");
  const auto& shape = sets.query_.shape();
  require(shape.size() == 3, sets.name_, ": tokens has shape ", format_shape(shape),
          ", expected (n, 1 + N, d), the query first");
  require(shape[0] > 0 && shape[2] > 0, sets.name_, ": tokens is empty, shape ", format_shape(shape));
  require(shape[1] > 1, sets.name_, ": tokens has shape ", format_shape(shape),
          ", but a set needs at least two tokens (one query, one key)");
  sets.query_first_ = true;
  sets.count_ = shape[0];
  sets.dim_ = shape[2];
  sets.keys_per_set_ = sets.max_keys_ = shape[1] - 1;
  sets.total_keys_ = sets.count_ * sets.keys_per_set_;
  sets.check_finite();
  return sets;
}

Sets Sets::from_ragged(Array query, Array keys, std::vector<std::int64_t> offsets, std::string name) {
  Sets sets;
  sets.name_ = std::move(name);
  sets.query_ = as_floating(std::move(query), sets.name_, "query");
  sets.keys_ = as_floating(std::move(keys), sets.name_, "keys");
  check_query(sets.query_, sets.name_);
  require(sets.keys_.rank() == 2, sets.name_, ": keys has shape ", format_shape(sets.keys_.shape()),
          ", expected (total, d) beside offsets");
  require(sets.keys_.dim(1) == sets.query_.dim(1), sets.name_, ": queries have ", sets.query_.dim(1),
          " coordinates but keys have ", sets.keys_.dim(1));
  check_offsets(offsets, sets.query_.dim(0), sets.keys_.dim(0), sets.name_);
  sets.offsets_ = std::move(offsets);
  sets.count_ = sets.query_.dim(0);
  sets.dim_ = sets.query_.dim(1);
  sets.total_keys_ = sets.keys_.dim(0);
  for (Index i = 0; i < sets.count_; ++i) {
    sets.max_keys_ = std::max(sets.max_keys_, sets.keys_of(i));
    sets.equal_sizes_ = sets.equal_sizes_ && sets.keys_of(i) == sets.keys_of(0);
  }
  sets.check_finite();
  return sets;
}

Sets Sets::from_sequence(Array tokens, std::string name) {
  Sets sets;
  sets.name_ = std::move(name);
  sets.query_ = as_floating(std::move(tokens), sets.name_, "tokens");
  const auto& shape = sets.query_.shape();
  require(shape.size() == 3, sets.name_, ": tokens has shape ", format_shape(shape), ", expected (n, L, d)");
  require(shape[0] > 0 && shape[2] > 0, sets.name_, ": tokens is empty, shape ", format_shape(shape));
  require(shape[1] > 1, sets.name_, ": tokens has shape ", format_shape(shape),
          ", but a sequence needs at least two tokens (one query, one key)");
  sets.sequence_length_ = shape[1];
  sets.count_ = shape[0] * shape[1];
  sets.dim_ = shape[2];
  sets.keys_per_set_ = sets.max_keys_ = shape[1] - 1;
  sets.total_keys_ = sets.count_ * sets.keys_per_set_;
  sets.check_finite();
  return sets;
}

void Sets::check_finite() const {
  const bool shared = is_sequence() || query_first_;
  require_finite(query_, name_, shared ? "tokens" : "query");
  if (!shared) require_finite(keys_, name_, "keys");
}

Index Sets::keys_of(Index set) const {
  if (offsets_.empty()) return keys_per_set_;
  return static_cast<Index>(offsets_[static_cast<std::size_t>(set) + 1] -
                            offsets_[static_cast<std::size_t>(set)]);
}

Index Sets::key_position(Index set, Index key) const {
  if (!is_sequence()) return key;
  return key < set % sequence_length_ ? key : key + 1;
}

template <class T>
void Sets::copy_set(Index set, T* query, T* keys, Index stride) const {
  const auto copy = [&](const auto* queries, const auto* all_keys) {
    copy_row(queries + (query_first_ ? set * (1 + keys_per_set_) : set) * dim_, query, dim_);
    if (query_first_) {
      copy_rows(queries + (set * (1 + keys_per_set_) + 1) * dim_, keys_per_set_, dim_, keys, stride);
    } else if (is_sequence()) {
      const Index here = set % sequence_length_;
      const auto* tokens = queries + (set - here) * dim_;
      copy_rows(tokens, here, dim_, keys, stride);
      copy_rows(tokens + (here + 1) * dim_, sequence_length_ - here - 1, dim_, keys + here * stride, stride);
    } else {
      const Index first = offsets_.empty() ? set * keys_per_set_ : offsets_[static_cast<std::size_t>(set)];
      copy_rows(all_keys + first * dim_, keys_of(set), dim_, keys, stride);
    }
  };
  const Array& keys_array = is_sequence() || query_first_ ? query_ : keys_;
  const bool q32 = query_.dtype() == DType::f32, k32 = keys_array.dtype() == DType::f32;
  if (q32 && k32) copy(query_.data<float>(), keys_array.data<float>());
  if (!q32 && !k32) copy(query_.data<double>(), keys_array.data<double>());
  if (q32 && !k32) copy(query_.data<float>(), keys_array.data<double>());
  if (!q32 && k32) copy(query_.data<double>(), keys_array.data<float>());
}
template void Sets::copy_set<float>(Index, float*, float*, Index) const;
template void Sets::copy_set<double>(Index, double*, double*, Index) const;

}  // namespace headlens

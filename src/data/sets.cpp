#include "headlens/sets.hpp"

#include <algorithm>

#include "data/set_checks.hpp"

namespace headlens {
namespace {

Array as_floating(Array array) {
  if (array.is_float()) return array;
  Array out(DType::f64, array.shape());
  for (Index i = 0; i < array.size(); ++i) out.data<double>()[i] = array.at(i);
  return out;
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
  check_rectangular(form_of(query), form_of(keys), sets.name_);
  sets.query_ = as_floating(std::move(query));
  sets.keys_ = as_floating(std::move(keys));
  const auto& shape = sets.keys_.shape();
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
  check_tokens(form_of(tokens), sets.name_);
  sets.query_ = as_floating(std::move(tokens));
  const auto& shape = sets.query_.shape();
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
  check_ragged(form_of(query), form_of(keys), offsets, sets.name_);
  sets.query_ = as_floating(std::move(query));
  sets.keys_ = as_floating(std::move(keys));
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
  check_sequence(form_of(tokens), sets.name_);
  sets.query_ = as_floating(std::move(tokens));
  const auto& shape = sets.query_.shape();
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
  headlens::check_finite(query_, name_, shared ? "tokens" : "query");
  if (!shared) headlens::check_finite(keys_, name_, "keys");
}

Index Sets::keys_of(Index set) const {
  if (offsets_.empty()) return keys_per_set_;
  return static_cast<Index>(offsets_[static_cast<std::size_t>(set) + 1] -
                            offsets_[static_cast<std::size_t>(set)]);
}

Whole Sets::whole() const {
  return whole_ ? *whole_ : Whole{0, count_, count_ > 0 ? keys_of(0) : 0, max_keys_, equal_sizes_};
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

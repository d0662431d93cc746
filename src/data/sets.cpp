#include "headlens/sets.hpp"

#include <algorithm>
#include <cstring>

#include "data/set_checks.hpp"
#include "data/set_part.hpp"
#include "data/set_rows.hpp"
#include "headlens/device_memory.hpp"

namespace headlens {
namespace {

[[noreturn]] void refuse_device(const Array& array, const std::string& name) {
  throw Error(ErrorCode::misuse,
              message(name, ": lies on ", array.device()->place(), ", where only ", option("backend", "cuda"),
                      " reads it, for fits and predictions with finitely many heads: copy it to main memory "
                      "first"));
}

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

// Rows of `from` in main memory, an array of this shape. each(take): calls take(first row, rows) for them.
template <class Each>
Array gather_rows(const Array& from, std::vector<Index> shape, const Each& each) {
  const std::size_t row_bytes = static_cast<std::size_t>(shape.back()) * item_bytes(from.dtype());
  std::vector<DeviceMemory::Part> parts;
  each([&](Index first, Index count) {
    if (count > 0)
      parts.push_back(
          {static_cast<std::size_t>(first) * row_bytes, static_cast<std::size_t>(count) * row_bytes});
  });
  Array out(from.dtype(), std::move(shape));
  if (from.device()) {
    from.device()->fetch(parts, out.raw());
    return out;
  }
  auto* to = static_cast<char*>(out.raw());
  for (const DeviceMemory::Part& part : parts) {
    std::memcpy(to, static_cast<const char*>(from.raw()) + part.offset, part.bytes);
    to += part.bytes;
  }
  return out;
}

void check_one_place(const Array& query, const Array& keys, const std::string& name) {
  const auto place = [](const Array& a) { return a.device() ? a.device()->place() : "main memory"; };
  require(place(query) == place(keys), name, ": query lies in ", place(query), " and keys in ", place(keys),
          ", expected one place for both");
}

}  // namespace

Sets Sets::from_arrays(Array query, Array keys, std::string name) {
  Sets sets;
  sets.name_ = std::move(name);
  check_rectangular(form_of(query), form_of(keys), sets.name_);
  check_one_place(query, keys, sets.name_);
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
  check_one_place(query, keys, sets.name_);
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

Index Sets::key_position(Index set, Index key) const { return rows_of(*this, set).position(key); }

double Sets::host_bytes() const {
  return on_device() ? 0.0 : static_cast<double>(query_.bytes() + keys_.bytes());
}

Sets part_of(const Sets& sets, Index step, Index most_keys) {
  const auto keys_of = [&](Index set) { return std::min(sets.keys_of(set), most_keys); };
  std::vector<Index> chosen;
  std::vector<std::int64_t> offsets{0};
  for (Index set = 0; set < sets.count(); set += step) {
    chosen.push_back(set);
    offsets.push_back(offsets.back() + keys_of(set));
  }
  const Index count = std::ssize(chosen), dim = sets.dim();
  Array query = gather_rows(sets.query(), {count, dim}, [&](const auto& take) {
    for (const Index set : chosen) take(rows_of(sets, set).query, 1);
  });
  std::vector<Index> shape{static_cast<Index>(offsets.back()), dim};
  if (sets.equal_sizes()) shape = {count, keys_of(0), dim};
  Array keys = gather_rows(keys_array(sets), std::move(shape), [&](const auto& take) {
    for (const Index set : chosen) {
      const SetRows rows = rows_of(sets, set);
      const Index before = std::min(rows.before, keys_of(set));
      take(rows.keys, before);
      take(rows.key(before), keys_of(set) - before);
    }
  });
  return sets.equal_sizes()
             ? Sets::from_arrays(std::move(query), std::move(keys), sets.name())
             : Sets::from_ragged(std::move(query), std::move(keys), std::move(offsets), sets.name());
}

template <class T>
void Sets::copy_set(Index set, T* query, T* keys, Index stride) const {
  if (on_device()) refuse_device(query_, name_);
  const SetRows rows = rows_of(*this, set);
  const Index before = std::min(rows.before, keys_of(set));
  const auto copy = [&](const auto* queries, const auto* all_keys) {
    copy_row(queries + rows.query * dim_, query, dim_);
    copy_rows(all_keys + rows.keys * dim_, before, dim_, keys, stride);
    copy_rows(all_keys + rows.key(before) * dim_, keys_of(set) - before, dim_, keys + before * stride,
              stride);
  };
  const Array& keys_array = headlens::keys_array(*this);
  const bool q32 = query_.dtype() == DType::f32, k32 = keys_array.dtype() == DType::f32;
  if (q32 && k32) copy(query_.data<float>(), keys_array.data<float>());
  if (!q32 && !k32) copy(query_.data<double>(), keys_array.data<double>());
  if (q32 && !k32) copy(query_.data<float>(), keys_array.data<double>());
  if (!q32 && k32) copy(query_.data<double>(), keys_array.data<float>());
}
template void Sets::copy_set<float>(Index, float*, float*, Index) const;
template void Sets::copy_set<double>(Index, double*, double*, Index) const;

}  // namespace headlens

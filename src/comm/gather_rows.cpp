#include "comm/gather_rows.hpp"

#include <algorithm>

namespace headlens::comm {
namespace {

std::span<const std::byte> bytes_of(const Array& array) {
  return {static_cast<const std::byte*>(array.raw()), static_cast<std::size_t>(array.bytes())};
}

// As many rows as the bytes are.
Array array_of(const Array& like, std::size_t bytes) {
  std::vector<Index> shape = like.shape();
  std::size_t row = item_bytes(like.dtype());
  for (std::size_t axis = 1; axis < shape.size(); ++axis) row *= static_cast<std::size_t>(shape[axis]);
  shape[0] = row > 0 ? static_cast<Index>(bytes / row) : 0;
  return Array(like.dtype(), shape);
}

}  // namespace

Array gather_rows(const Array& part, Communicator& ranks) {
  Array out;
  ranks.gather(bytes_of(part), [&](std::size_t bytes) {
    out = array_of(part, bytes);
    return static_cast<std::byte*>(out.raw());
  });
  return out;
}

Array gather_rows_on_first(const Array& part, Communicator& ranks) {
  Array out = array_of(part, 0);
  ranks.gather_on_first(bytes_of(part), [&](std::size_t bytes) {
    out = array_of(part, bytes);
    return static_cast<std::byte*>(out.raw());
  });
  return out;
}

Array exchange_rows(const std::vector<Array>& to, Communicator& ranks) {
  Communicator::Parts parts;
  for (const Array& array : to) parts.emplace_back(bytes_of(array).begin(), bytes_of(array).end());
  parts = ranks.exchange(parts);
  std::size_t bytes = 0;
  for (const std::vector<std::byte>& part : parts) bytes += part.size();
  Array out = array_of(to[0], bytes);
  auto* next = static_cast<std::byte*>(out.raw());
  for (const std::vector<std::byte>& part : parts) next = std::copy(part.begin(), part.end(), next);
  return out;
}

}  // namespace headlens::comm

// A zip archive of stored entries, written front to back: the bytes that np.savez writes.
//
// libzip reads our archives but does not write them: it makes a temporary file of its own and seeks back to
// patch headers, so it could neither share AtomicFile nor write to a pipe. Entries are in memory, hence their
// checksums are known in advance and nothing needs patching. Time stamps are fixed: same arrays, same bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/atomic_file.hpp"

namespace headlens::io {

class ZipWriter {
 public:
  explicit ZipWriter(AtomicFile& out) : out_(out) {}

  // One entry whose contents are `head` followed by `body`.
  void add(std::string_view name, std::string_view head, std::span<const std::byte> body);
  void finish();

 private:
  struct Entry {
    std::string name;
    std::uint32_t checksum;
    std::uint64_t bytes;
    std::uint64_t offset;
  };
  void put(const void* bytes, std::size_t size);
  void put(std::string_view bytes) { put(bytes.data(), bytes.size()); }
  static std::string directory_record(const Entry& entry);

  AtomicFile& out_;
  std::vector<Entry> entries_;
  std::uint64_t written_ = 0;
};

}  // namespace headlens::io

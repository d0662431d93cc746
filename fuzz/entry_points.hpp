// What the fuzzers call, and tests/io/corpus_test.cpp replays: bytes in, and nothing but headlens::Error may
// come out.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "data/set_file.hpp"
#include "headlens/set_reader.hpp"
#include "io/byte_reader.hpp"
#include "io/model_file.hpp"
#include "io/npy.hpp"
#include "io/npz.hpp"
#include "io/safetensors.hpp"
#include "study/study_file.hpp"

namespace headlens::fuzz {

constexpr std::uint64_t max_bytes = std::uint64_t{1} << 20;

inline void read_npy(std::span<const std::byte> bytes) {
  io::MemoryReader in(bytes, "fuzz.npy");
  io::read_npy(in, max_bytes);
}

inline void read_npz(std::span<const std::byte> bytes) { io::parse_npz(bytes, "fuzz.npz", max_bytes); }

inline void read_safetensors(std::span<const std::byte> bytes) {
  io::MemoryReader in(bytes, "fuzz.safetensors");
  io::read_safetensors(in, max_bytes);
}

// A file that is only in memory, with a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::span<const std::byte> bytes) : descriptor_(memfd_create("fuzz", 0)) {
    ensure(descriptor_ >= 0 && write(descriptor_, bytes.data(), bytes.size()) == std::ssize(bytes), "memfd");
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return join("/proc/self/fd/", descriptor_); }

 private:
  int descriptor_;
};

inline bool reads_whole(std::span<const std::byte> bytes, DataLayout layout) try {
  labelled_sets_from_arrays(io::parse_npz(bytes, "fuzz.npz", 64 * max_bytes), layout, "fuzz.npz");
  return true;
} catch (const Error&) {
  return false;
}

inline bool reads_in_blocks(const std::string& path, DataLayout layout) try {
  SetReader reader(path, layout, Labels::needed, {.max_memory_bytes = 64 * max_bytes});
  while (reader.remaining() > 0) reader.next(2);
  return true;
} catch (const Error&) {
  return false;
}

// A set file in either layout, at once and a block at a time: both take it, or neither.
inline void read_sets(std::span<const std::byte> bytes) {
  const MemoryFile file(bytes);
  for (const DataLayout layout : {DataLayout::sets, DataLayout::sequence})
    ensure(reads_whole(bytes, layout) == reads_in_blocks(file.path(), layout),
           "read at once and not in blocks, or the other way round");
}

inline void read_model(std::span<const std::byte> bytes) {
  io::MemoryReader in(bytes, "fuzz.hlm");
  model_from_tensors(io::read_safetensors(in, max_bytes), "fuzz.hlm");
}

// A study file, then the same bytes as a change to a study.
inline void read_study(std::span<const std::byte> bytes) {
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  try {
    parse_study(text, "fuzz.toml");
  } catch (const Error&) {
  }
  with_override("seeds = [1]\n[fixed]\ndim = 3 # a comment\n[variants.model]\nA = {heads = 2}\n", text,
                "fuzz.toml");
}

}  // namespace headlens::fuzz

// What the fuzzers call, and tests/io/corpus_test.cpp replays: bytes in, and nothing but headlens::Error may
// come out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "io/byte_reader.hpp"
#include "io/npy.hpp"
#include "io/npz.hpp"
#include "io/safetensors.hpp"

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

}  // namespace headlens::fuzz

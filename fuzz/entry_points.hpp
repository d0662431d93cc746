// What the fuzzers call, and tests/io/corpus_test.cpp replays: bytes in, and nothing but headlens::Error may
// come out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "data/set_file.hpp"
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

// A whole set file: one layout, then the other.
inline void read_sets(std::span<const std::byte> bytes) {
  const NamedArrays arrays = io::parse_npz(bytes, "fuzz.npz", max_bytes);
  try {
    labelled_sets_from_arrays(arrays, DataLayout::sets, "fuzz.npz");
  } catch (const Error&) {
  }
  labelled_sets_from_arrays(arrays, DataLayout::sequence, "fuzz.npz");
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

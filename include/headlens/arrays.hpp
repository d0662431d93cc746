// NumPy files. Read: version 1 to 3 headers, little-endian, C order, the types of DType. Anything else
// (object arrays, Fortran order, big-endian, truncated or lying headers) is an Error that names the file and
// the array. Write: to a temporary file beside the target, then renamed, so no half file is ever seen under
// its name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "headlens/array.hpp"

namespace headlens {

using NamedArrays = std::map<std::string, Array>;

// `max_bytes` bounds what the arrays would take in memory, judged from the headers before any is allocated.
Array read_npy(const std::filesystem::path& path, std::uint64_t max_bytes = UINT64_MAX);
void write_npy(const std::filesystem::path& path, const Array& array);

NamedArrays read_npz(const std::filesystem::path& path, std::uint64_t max_bytes = UINT64_MAX);
void write_npz(const std::filesystem::path& path, const NamedArrays& arrays);

// Metadata values are strings, as the safetensors format has them.
struct TensorFile {
  NamedArrays tensors;
  std::map<std::string, std::string> metadata;
};
TensorFile read_safetensors(const std::filesystem::path& path, std::uint64_t max_bytes = UINT64_MAX);
void write_safetensors(const std::filesystem::path& path, const TensorFile& file);

// A text file, written the same way.
void write_text(const std::filesystem::path& path, const std::string& text);

}  // namespace headlens

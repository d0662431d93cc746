// The JSON header of a safetensors file, checked field by field while it is parsed: no document is built, so
// neither deep nesting nor a hundred megabytes of brackets cost memory.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "headlens/array.hpp"

namespace headlens::io {

// Types of two bytes become float32 in memory, which holds every value of theirs.
enum class StoredAs { itself, bfloat16, float16 };

struct TensorEntry {
  DType type = DType::f64;
  std::vector<Index> shape;
  std::uint64_t begin = 0;  // in bytes, from the end of the header
  std::uint64_t end = 0;
  StoredAs stored = StoredAs::itself;
};

struct SafetensorsHeader {
  std::map<std::string, TensorEntry> tensors;
  std::map<std::string, std::string> metadata;
};

// Errors begin with `label`. Fields, types and sizes are consistent afterwards; how tensors tile the data is
// not checked here.
SafetensorsHeader parse_safetensors_header(std::string_view json, const std::string& label);

std::string_view safetensors_name(DType type);  // "F32"

constexpr std::string_view metadata_key = "__metadata__";

}  // namespace headlens::io

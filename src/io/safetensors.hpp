// safetensors: 8 bytes with the length of a JSON header, the header, then the tensors one behind the other.
// https://github.com/huggingface/safetensors#format
#pragma once

#include <cstdint>

#include "headlens/arrays.hpp"
#include "io/byte_reader.hpp"

namespace headlens::io {

TensorFile read_safetensors(ByteReader& in, std::uint64_t max_bytes = UINT64_MAX);

}  // namespace headlens::io

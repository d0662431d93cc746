// One NumPy array as bytes: the header (format versions 1 to 3) and the data behind it.
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "headlens/array.hpp"
#include "io/byte_reader.hpp"

namespace headlens::io {

struct NpyHeader {
  DType type = DType::f64;
  std::vector<Index> shape;
  std::uint64_t data_bytes = 0;
};

// Leaves `in` at the first byte of data. Every failure is an Error that begins with in.label().
NpyHeader read_npy_header(ByteReader& in);

// As above, and the bytes left in `in` must be exactly the data.
NpyHeader read_npy_header_and_check_size(ByteReader& in);

Array read_npy(ByteReader& in, std::uint64_t max_bytes = UINT64_MAX);

// The header that np.save writes for this array, byte for byte.
std::string format_npy_header(const Array& array);

// The Python literal inside a header: {'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }
struct NpyFields {
  std::string descr;
  bool fortran_order = false;
  std::vector<Index> shape;
};
NpyFields parse_npy_fields(std::string_view literal, const std::string& label);

}  // namespace headlens::io

#include "io/npy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "headlens/arrays.hpp"
#include "io/allocation.hpp"
#include "io/atomic_file.hpp"
#include "io/printable.hpp"

namespace headlens::io {

static_assert(std::endian::native == std::endian::little,
              "array bytes are copied to and from files as they are");

namespace {

constexpr std::string_view magic("\x93NUMPY", 6);
constexpr std::uint32_t max_header_bytes = 1U << 20;

struct NamedType {
  std::string_view code;
  DType type;
};
constexpr std::array<NamedType, 11> types{{{"f4", DType::f32},
                                           {"f8", DType::f64},
                                           {"i1", DType::i8},
                                           {"i2", DType::i16},
                                           {"i4", DType::i32},
                                           {"i8", DType::i64},
                                           {"u1", DType::u8},
                                           {"u2", DType::u16},
                                           {"u4", DType::u32},
                                           {"u8", DType::u64},
                                           {"b1", DType::boolean}}};

std::string_view kind_name(char kind) {
  switch (kind) {
    case 'O':
      return "Python objects";
    case 'U':
    case 'S':
    case 'a':
      return "strings";
    case 'c':
      return "complex numbers";
    case 'V':
      return "structured or raw data";
    case 'M':
    case 'm':
      return "dates or times";
    case 'f':
      return "floating-point numbers of another size";
    default:
      return "an unknown type";
  }
}

DType parse_descr(const ByteReader& in, const std::string& descr) {
  const char order = descr.empty() ? '\0' : descr.front();
  const std::string code = descr.empty() ? "" : descr.substr(1);
  const auto found = std::ranges::find(types, code, &NamedType::code);
  const bool one_byte = found != types.end() && item_bytes(found->type) == 1;
  const bool known = found != types.end() && (order == '<' || order == '=' || (order == '|' && one_byte));
  if (known) return found->type;
  expect(in, order != '>' || found == types.end(), "is big-endian (descr '", descr,
         "'); save array.astype('<", code, "') instead");
  const std::string_view holds =
      found == types.end() && !code.empty() ? kind_name(code.front()) : "an unknown type";
  fail(in, "holds ", holds, " (descr '", printable_name(descr),
       "'); allowed are float32, float64, int8 to int64, uint8 to uint64 and bool");
}

// Fortran order is the same bytes as C order when at most one dimension is not 1, or nothing is stored.
void check_order(const ByteReader& in, const NpyFields& fields) {
  const auto wide = std::ranges::count_if(fields.shape, [](Index n) { return n != 1; });
  const bool no_items = std::ranges::count(fields.shape, 0) > 0;
  expect(in, !fields.fortran_order || wide <= 1 || no_items, "shape ", format_shape(fields.shape),
         " is in Fortran order, expected C order; save np.ascontiguousarray(array) instead");
}

// The literal between the fixed part and the data.
std::string read_literal(ByteReader& in) {
  expect(in, in.remaining() > 0, "is empty, expected a NumPy array");
  std::array<char, 8> start{};
  const std::uint64_t size = in.remaining();
  in.read(start.data(), std::min<std::uint64_t>(size, start.size()));
  const std::string_view found(start.data(), magic.size());
  expect(in, !found.starts_with("PK"), "is a zip archive, perhaps an .npz; expected a single NumPy array");
  expect(in, found == magic, "is not a NumPy array: it does not begin with \\x93NUMPY");
  expect(in, size > start.size(), "is not a NumPy array: it ends after ", size, " bytes, inside the header");
  const int version = static_cast<unsigned char>(start[6]);
  const int minor = static_cast<unsigned char>(start[7]);
  expect(in, version >= 1 && version <= 3 && minor == 0, "has NumPy format version ", version, ".", minor,
         ", expected 1.0, 2.0 or 3.0");
  std::uint32_t length = 0;
  in.read(&length, version == 1 ? 2 : 4);
  expect(in, length <= in.remaining(), "its NumPy header announces ", length, " bytes, but only ",
         in.remaining(), " follow");
  expect(in, length <= max_header_bytes, "its NumPy header takes ", length, " bytes, allowed are ",
         max_header_bytes);
  std::string literal(length, '\0');
  in.read(literal.data(), length);
  return literal;
}

}  // namespace

NpyHeader read_npy_header(ByteReader& in) {
  const NpyFields fields = parse_npy_fields(read_literal(in), in.label());
  const DType type = parse_descr(in, fields.descr);
  check_order(in, fields);
  const auto bytes = byte_count(type, fields.shape);
  expect(in, bytes.has_value(), "shape ", format_shape(fields.shape), " of ", name(type), " is too large");
  return {type, fields.shape, *bytes};
}

NpyHeader read_npy_header_and_check_size(ByteReader& in) {
  NpyHeader header = read_npy_header(in);
  const std::string promise = fmt::format("its NumPy header announces {} bytes of data for {} {}",
                                          header.data_bytes, name(header.type), format_shape(header.shape));
  expect(in, in.remaining() >= header.data_bytes, promise, ", but only ", in.remaining(),
         " follow (cut off?)");
  expect(in, in.remaining() <= header.data_bytes, promise, ", but ", in.remaining(), " follow");
  return header;
}

Array read_npy(ByteReader& in, std::uint64_t max_bytes) {
  const NpyHeader header = read_npy_header_and_check_size(in);
  require_budget(in.label(), header.data_bytes, max_bytes);
  Array array = allocate(in.label(), header.type, header.shape);
  in.read(array.raw(), array.bytes());
  return array;
}

std::string format_npy_header(const Array& array) {
  require(array.shape().size() <= max_rank, "cannot write an array of ", array.rank(),
          " dimensions, NumPy allows ", max_rank);
  const auto* known = std::ranges::find(types, array.dtype(), &NamedType::type);
  const char order = item_bytes(array.dtype()) == 1 ? '|' : '<';
  std::string literal = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': {}, }}", order,
                                    known->code, format_shape(array.shape()));
  // NumPy leaves room for the first dimension to grow in place, then aligns the data to 64 bytes.
  constexpr std::size_t growth_digits = 21;
  if (array.rank() > 0) literal.append(growth_digits - std::to_string(array.dim(0)).size(), ' ');
  constexpr std::size_t fixed_bytes = 10;
  literal.append(64 - (fixed_bytes + literal.size() + 1) % 64, ' ');
  literal += '\n';
  const auto length = static_cast<std::uint16_t>(literal.size());
  std::string header(magic);
  header += {'\x01', '\x00', static_cast<char>(length & 0xffU), static_cast<char>(length >> 8U)};
  return header + literal;
}

}  // namespace headlens::io

namespace headlens {

Array read_npy(const std::filesystem::path& path, std::uint64_t max_bytes) {
  io::FileReader file(path);
  return io::read_npy(file, max_bytes);
}

void write_npy(const std::filesystem::path& path, const Array& array) {
  const std::string header = io::format_npy_header(array);
  io::AtomicFile file(path);
  file.write(header);
  file.write(array.raw(), array.bytes());
  file.commit();
}

}  // namespace headlens

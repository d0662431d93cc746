#include "io/npz.hpp"

#include "headlens/error.hpp"
#include "io/allocation.hpp"
#include "io/npy.hpp"
#include "io/npz_reader.hpp"
#include "io/printable.hpp"
#include "io/zip_writer.hpp"

namespace headlens::io {
namespace {

NamedArrays read_arrays(NpzReader& in, std::uint64_t max_bytes) {
  require_budget(in.label(), in.data_bytes(), max_bytes);
  NamedArrays arrays;
  for (const auto& [name, header] : in.headers()) arrays[name] = in.read(name);
  return arrays;
}

void write_archive(AtomicFile& file, const NamedArrays& arrays) {
  ZipWriter zip(file);
  for (const auto& [name, array] : arrays) {
    require(printable(name) == name, "array name '", printable_name(name),
            "' is not text that a file may hold");
    const auto* data = static_cast<const std::byte*>(array.raw());
    zip.add(name + ".npy", format_npy_header(array), {data, array.bytes()});
  }
  zip.finish();
}

}  // namespace

NamedArrays parse_npz(std::span<const std::byte> bytes, const std::string& label, std::uint64_t max_bytes) {
  NpzReader in(bytes, label);
  return read_arrays(in, max_bytes);
}

}  // namespace headlens::io

namespace headlens {

NamedArrays read_npz(const std::filesystem::path& path, std::uint64_t max_bytes) {
  io::NpzReader in(path);
  return io::read_arrays(in, max_bytes);
}

void write_npz(const std::filesystem::path& path, const NamedArrays& arrays) {
  io::AtomicFile file(path);
  io::write_archive(file, arrays);
  file.commit();
}

}  // namespace headlens

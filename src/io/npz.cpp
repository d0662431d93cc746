#include "io/npz.hpp"

#include <fmt/format.h>
#include <zip.h>

#include <cstdio>
#include <memory>
#include <vector>

#include "io/allocation.hpp"
#include "io/byte_reader.hpp"
#include "io/npy.hpp"
#include "io/printable.hpp"
#include "io/zip_writer.hpp"

namespace headlens::io {
namespace {

using Archive = std::unique_ptr<zip_t, decltype(&zip_discard)>;

constexpr std::string_view suffix = ".npy";

// Damage to the archive is the input's fault, a failing disk the environment's.
[[noreturn]] void fail_zip(const std::string& label, zip_error_t* error) {
  const bool system = zip_error_system_type(error) == ZIP_ET_SYS;
  throw Error(system ? ErrorCode::environment : ErrorCode::misuse,
              fmt::format("{}: {}", label, printable(zip_error_strerror(error))));
}

class EntryReader final : public ByteReader {
 public:
  EntryReader(zip_t* archive, std::uint64_t index, std::string label, std::uint64_t bytes)
      : ByteReader(std::move(label), bytes), file_(zip_fopen_index(archive, index, 0), &zip_fclose) {
    if (!file_) fail_zip(this->label(), zip_get_error(archive));
  }

  // libzip compares the checksum when it meets the end.
  void expect_end() {
    char extra = 0;
    const zip_int64_t done = zip_fread(file_.get(), &extra, 1);
    if (done < 0) fail_zip(label(), zip_file_get_error(file_.get()));
    expect(*this, done == 0, "holds more bytes than the archive announces");
  }

 private:
  void fetch(void* out, std::size_t bytes) override {
    char* next = static_cast<char*>(out);
    while (bytes > 0) {
      const zip_int64_t done = zip_fread(file_.get(), next, bytes);
      if (done < 0) fail_zip(label(), zip_file_get_error(file_.get()));
      expect(*this, done > 0, "ends ", bytes, " bytes before the size the archive announces");
      next += done;
      bytes -= static_cast<std::size_t>(done);
    }
  }

  std::unique_ptr<zip_file_t, decltype(&zip_fclose)> file_;
};

struct Entry {
  std::uint64_t index;
  std::string name;  // of the array
  std::string label;
  std::uint64_t bytes;
};

void check_sizes(const std::string& label, const zip_stat_t& found, std::uint64_t archive_bytes) {
  require(found.comp_size <= archive_bytes, label, ": announces ", found.comp_size,
          " bytes inside an archive of ", archive_bytes);
  if (found.comp_method == ZIP_CM_STORE) {
    require(found.size == found.comp_size, label, ": is stored, yet announces ", found.size, " bytes as ",
            found.comp_size);
  } else {
    constexpr std::uint64_t densest = 1032;  // deflate cannot pack more bytes into one
    require(found.size / densest <= found.comp_size, label, ": announces ", found.size, " bytes, more than ",
            found.comp_size, " deflated bytes can hold");
  }
}

Entry inspect_entry(zip_t* archive, std::uint64_t index, const std::string& archive_label,
                    std::uint64_t archive_bytes) {
  zip_stat_t found;
  if (zip_stat_index(archive, index, 0, &found) != 0) fail_zip(archive_label, zip_get_error(archive));
  std::string_view name = found.name;
  require(name.ends_with(suffix), archive_label, ": entry '", printable_name(name),
          "' is not an array (its name does not end in .npy)");
  name.remove_suffix(suffix.size());
  const std::string label = fmt::format("{}: {}", archive_label, printable_name(name));
  require(found.encryption_method == ZIP_EM_NONE, label, ": is encrypted");
  require(found.comp_method == ZIP_CM_STORE || found.comp_method == ZIP_CM_DEFLATE, label,
          ": is compressed by zip method ", found.comp_method, "; allowed are stored (0) and deflated (8)");
  check_sizes(label, found, archive_bytes);
  return {index, std::string(name), label, found.size};
}

std::vector<Entry> inspect_entries(zip_t* archive, const std::string& label, std::uint64_t archive_bytes) {
  std::vector<Entry> entries;
  const auto count = static_cast<std::uint64_t>(zip_get_num_entries(archive, 0));
  for (std::uint64_t i = 0; i < count; ++i)
    entries.push_back(inspect_entry(archive, i, label, archive_bytes));
  return entries;
}

std::uint64_t announced_bytes(zip_t* archive, const std::vector<Entry>& entries) {
  std::uint64_t total = 0;
  for (const Entry& entry : entries) {
    EntryReader in(archive, entry.index, entry.label, entry.bytes);
    const std::uint64_t bytes = read_npy_header_and_check_size(in).data_bytes;
    if (__builtin_add_overflow(total, bytes, &total)) return UINT64_MAX;
  }
  return total;
}

NamedArrays read_archive(zip_t* archive, const std::string& label, std::uint64_t archive_bytes,
                         std::uint64_t max_bytes) {
  const std::vector<Entry> entries = inspect_entries(archive, label, archive_bytes);
  NamedArrays arrays;
  for (const Entry& entry : entries)
    require(arrays.try_emplace(entry.name).second, entry.label, ": the archive holds this array twice");
  require_budget(label, announced_bytes(archive, entries), max_bytes);
  for (const Entry& entry : entries) {
    EntryReader in(archive, entry.index, entry.label, entry.bytes);
    arrays[entry.name] = read_npy(in);
    in.expect_end();
  }
  return arrays;
}

// Null when out of memory.
zip_source_t* make_source(FileDescriptor file) {
  std::FILE* stream = ::fdopen(file.number(), "rb");
  if (stream == nullptr) return nullptr;
  file.release();
  zip_source_t* source = zip_source_filep_create(stream, 0, -1, nullptr);
  if (source == nullptr) std::fclose(stream);
  return source;
}

// Takes over `source`, whose first bytes `start` tell the likely mistake.
Archive open_archive(zip_source_t* source, const std::string& label, std::string_view start) {
  zip_error_t error;
  zip_error_init(&error);
  Archive archive(zip_open_from_source(source, ZIP_RDONLY, &error), &zip_discard);
  if (archive) return archive;
  const std::string reason = printable(zip_error_strerror(&error));
  zip_error_fini(&error);
  zip_source_free(source);
  const char* hint = start.starts_with("\x93NUMPY") ? " (it is a single array; name it .npy)" : "";
  throw Error(ErrorCode::misuse,
              fmt::format("{}: cannot be read as an .npz archive: {}{}", label, reason, hint));
}

void write_archive(AtomicFile& file, const NamedArrays& arrays) {
  ZipWriter zip(file);
  for (const auto& [name, array] : arrays) {
    require(printable(name) == name, "array name '", printable_name(name),
            "' is not text that a file may hold");
    const auto* data = static_cast<const std::byte*>(array.raw());
    zip.add(name + std::string(suffix), format_npy_header(array), {data, array.bytes()});
  }
  zip.finish();
}

}  // namespace

NamedArrays parse_npz(std::span<const std::byte> bytes, const std::string& label, std::uint64_t max_bytes) {
  require(!bytes.empty(), label, ": is empty, expected an .npz archive");
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, nullptr);
  if (source == nullptr) throw Error(ErrorCode::memory, fmt::format("{}: out of memory", label));
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const Archive archive = open_archive(source, label, start);
  return read_archive(archive.get(), label, bytes.size(), max_bytes);
}

}  // namespace headlens::io

namespace headlens {

NamedArrays read_npz(const std::filesystem::path& path, std::uint64_t max_bytes) {
  const std::string label = io::printable(path.string());
  io::OpenedFile opened = io::open_file(path);
  require(opened.bytes > 0, label, ": is empty, expected an .npz archive");
  char start[6] = {};
  (void)!::pread(opened.file.number(), start, sizeof start, 0);
  zip_source_t* source = io::make_source(std::move(opened.file));
  if (source == nullptr) throw Error(ErrorCode::memory, label + ": out of memory");
  const io::Archive archive = io::open_archive(source, label, {start, sizeof start});
  return io::read_archive(archive.get(), label, opened.bytes, max_bytes);
}

void write_npz(const std::filesystem::path& path, const NamedArrays& arrays) {
  io::AtomicFile file(path);
  io::write_archive(file, arrays);
  file.commit();
}

}  // namespace headlens

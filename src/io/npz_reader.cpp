#include "io/npz_reader.hpp"

#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "base/parallel.hpp"
#include "io/allocation.hpp"
#include "io/byte_reader.hpp"
#include "io/printable.hpp"

namespace headlens::io {
namespace {

using ZipHandle = std::unique_ptr<zip_t, decltype(&zip_discard)>;

constexpr std::string_view suffix = ".npy";
constexpr std::size_t kFetchBytes = std::size_t{1} << 26;  // between two questions whether to stop

// Damage to the archive is the input's fault, a failing disk the environment's.
[[noreturn]] void fail_zip(const std::string& label, zip_error_t* error) {
  const bool system = zip_error_system_type(error) == ZIP_ET_SYS;
  throw Error(system ? ErrorCode::environment : ErrorCode::misuse,
              fmt::format("{}: {}", label, printable(zip_error_strerror(error))));
}

class EntryReader;

struct Entry {
  std::uint64_t index;
  std::string name;  // of the array
  std::string label;
  std::uint64_t bytes;
  bool stored;
  std::shared_ptr<EntryReader> reader = nullptr;  // while it is read
  bool finished = false;
  bool skipped = false;
};

class EntryReader final : public ByteReader {
 public:
  EntryReader(zip_t* archive, const Entry& entry)
      : ByteReader(entry.label, entry.bytes),
        file_(zip_fopen_index(archive, entry.index, 0), &zip_fclose),
        stored_(entry.stored) {
    if (!file_) fail_zip(label(), zip_get_error(archive));
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
      heed();
      const zip_int64_t done = zip_fread(file_.get(), next, std::min(bytes, kFetchBytes));
      if (done < 0) fail_zip(label(), zip_file_get_error(file_.get()));
      expect(*this, done > 0, "ends ", bytes, " bytes before the size the archive announces");
      next += done;
      bytes -= static_cast<std::size_t>(done);
    }
  }

  bool jump(std::uint64_t bytes) override {
    if (!stored_) return false;
    if (zip_fseek(file_.get(), static_cast<zip_int64_t>(bytes), SEEK_CUR) != 0)
      fail_zip(label(), zip_file_get_error(file_.get()));
    return true;
  }

  std::unique_ptr<zip_file_t, decltype(&zip_fclose)> file_;
  bool stored_;
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
  return {index, std::string(name), label, found.size, found.comp_method == ZIP_CM_STORE};
}

std::vector<Entry> inspect_entries(zip_t* archive, const std::string& label, std::uint64_t archive_bytes) {
  std::vector<Entry> entries;
  const auto count = static_cast<std::uint64_t>(zip_get_num_entries(archive, 0));
  for (std::uint64_t i = 0; i < count; ++i)
    entries.push_back(inspect_entry(archive, i, label, archive_bytes));
  return entries;
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
ZipHandle open_archive(zip_source_t* source, const std::string& label, std::string_view start) {
  zip_error_t error;
  zip_error_init(&error);
  ZipHandle archive(zip_open_from_source(source, ZIP_RDONLY, &error), &zip_discard);
  if (archive) return archive;
  const std::string reason = printable(zip_error_strerror(&error));
  zip_error_fini(&error);
  zip_source_free(source);
  const char* hint = start.starts_with("\x93NUMPY") ? " (it is a single array; name it .npy)" : "";
  throw Error(ErrorCode::misuse,
              fmt::format("{}: cannot be read as an .npz archive: {}{}", label, reason, hint));
}

ZipHandle open_bytes(std::span<const std::byte> bytes, const std::string& label) {
  require(!bytes.empty(), label, ": is empty, expected an .npz archive");
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, nullptr);
  if (source == nullptr) throw Error(ErrorCode::memory, fmt::format("{}: out of memory", label));
  return open_archive(source, label, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

ZipHandle open_file(OpenedFile opened, const std::string& label) {
  require(opened.bytes > 0, label, ": is empty, expected an .npz archive");
  char start[6] = {};
  (void)!::pread(opened.file.number(), start, sizeof start, 0);
  zip_source_t* source = make_source(std::move(opened.file));
  if (source == nullptr) throw Error(ErrorCode::memory, label + ": out of memory");
  return open_archive(source, label, {start, sizeof start});
}

}  // namespace

class NpzReader::Archive {
 public:
  Archive(ZipHandle zip, std::string label, std::uint64_t archive_bytes)
      : label_(std::move(label)),
        zip_(std::move(zip)),
        entries_(inspect_entries(zip_.get(), label_, archive_bytes)) {
    for (std::size_t i = 0; i < entries_.size(); ++i)
      require(places_.try_emplace(entries_[i].name, i).second, entries_[i].label,
              ": the archive holds this array twice");
    for (const Entry& entry : entries_) {
      EntryReader in(zip_.get(), entry);
      headers_[entry.name] = read_npy_header_and_check_size(in);
    }
  }

  const std::string& label() const { return label_; }
  const std::map<std::string, NpyHeader>& headers() const { return headers_; }

  // The next bytes of the array as one of its type and this shape.
  Array read(const std::string& name, const std::vector<Index>& shape) {
    Entry& entry = entries_[places_.at(name)];
    Array array = allocate(entry.label, headers_.at(name).type, shape);
    open(entry);
    entry.reader->read(array.raw(), array.bytes());
    if (entry.reader->remaining() == 0) close(entry);
    return array;
  }

  void skip(const std::string& name, std::uint64_t bytes) {
    Entry& entry = entries_[places_.at(name)];
    open(entry);
    entry.reader->skip(bytes);
    entry.skipped = true;
  }

  void finish() {
    std::array<char, 1 << 16> buffer;
    for (Entry& entry : entries_) {
      if (entry.finished) continue;
      open(entry);
      while (const std::uint64_t left = entry.reader->remaining())
        entry.reader->read(buffer.data(), std::min<std::uint64_t>(left, buffer.size()));
      close(entry);
    }
  }

 private:
  // Leaves a reader at the first byte of data; does nothing if there is one.
  void open(Entry& entry) {
    ensure(!entry.finished, entry.label, ": read twice");
    if (entry.reader) return;
    entry.reader = std::make_shared<EntryReader>(zip_.get(), entry);
    read_npy_header(*entry.reader);
  }

  void close(Entry& entry) {
    if (!entry.skipped) entry.reader->expect_end();
    entry.reader.reset();
    entry.finished = true;
  }

  std::string label_;
  ZipHandle zip_;
  std::vector<Entry> entries_;  // in the order of the archive
  std::map<std::string, std::size_t> places_;
  std::map<std::string, NpyHeader> headers_;
};

NpzReader::NpzReader(const std::filesystem::path& path) {
  const std::string label = printable(path.string());
  OpenedFile opened = io::open_file(path);
  const std::uint64_t bytes = opened.bytes;
  archive_ = std::make_unique<Archive>(open_file(std::move(opened), label), label, bytes);
}

NpzReader::NpzReader(std::span<const std::byte> bytes, const std::string& label)
    : archive_(std::make_unique<Archive>(open_bytes(bytes, label), label, bytes.size())) {}

NpzReader::~NpzReader() = default;

const std::string& NpzReader::label() const { return archive_->label(); }
const std::map<std::string, NpyHeader>& NpzReader::headers() const { return archive_->headers(); }

std::uint64_t NpzReader::data_bytes() const {
  std::uint64_t total = 0;
  for (const auto& [name, header] : headers())
    if (__builtin_add_overflow(total, header.data_bytes, &total)) return UINT64_MAX;
  return total;
}

Array NpzReader::read(const std::string& name) { return archive_->read(name, headers().at(name).shape); }

Array NpzReader::read_rows(const std::string& name, Index rows) {
  std::vector<Index> shape = headers().at(name).shape;
  shape.at(0) = rows;
  return archive_->read(name, shape);
}

void NpzReader::skip_rows(const std::string& name, Index rows) {
  const NpyHeader& header = headers().at(name);
  const auto all = static_cast<std::uint64_t>(header.shape.at(0));
  if (all > 0) archive_->skip(name, header.data_bytes / all * static_cast<std::uint64_t>(rows));
}

void NpzReader::finish() { archive_->finish(); }

}  // namespace headlens::io

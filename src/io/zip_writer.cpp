#include "io/zip_writer.hpp"

#include <algorithm>

#include "headlens/error.hpp"
#include "io/checksum.hpp"

namespace headlens::io {
namespace {

constexpr std::uint16_t version = 45;              // the first with 64-bit sizes
constexpr std::uint16_t date = (1U << 5) | 1U;     // 1 January 1980, where zip's calendar begins
constexpr std::uint32_t mode = 0600U << 16;        // np.savez's
constexpr std::uint64_t small = (1ULL << 31) - 1;  // above, Python writes 64-bit fields
constexpr std::uint32_t see_extra = 0xffffffffU;

// Little-endian fields, one after the other.
class Record {
 public:
  explicit Record(std::string_view signature) : bytes_(signature) {}
  Record& u16(std::uint64_t value) { return put(value, 2); }
  Record& u32(std::uint64_t value) { return put(value, 4); }
  Record& u64(std::uint64_t value) { return put(value, 8); }
  Record& text(std::string_view text) {
    bytes_ += text;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  Record& put(std::uint64_t value, int width) {
    for (int i = 0; i < width; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 0xffU);
    return *this;
  }
  std::string bytes_;
};

std::uint16_t flags(std::string_view name) {
  constexpr std::uint16_t utf8 = 0x800;
  return std::ranges::all_of(name, [](char c) { return static_cast<unsigned char>(c) < 0x80; }) ? 0 : utf8;
}

}  // namespace

void ZipWriter::put(const void* bytes, std::size_t size) {
  out_.write(bytes, size);
  written_ += size;
}

void ZipWriter::add(std::string_view name, std::string_view head, std::span<const std::byte> body) {
  require(name.size() <= 0xffff, "zip entry name of ", name.size(), " bytes, allowed are 65535");
  const std::uint32_t sum = checksum(body.data(), body.size(), checksum(head.data(), head.size()));
  const std::uint64_t bytes = head.size() + body.size();
  entries_.push_back({std::string(name), sum, bytes, written_});
  // Like NumPy, local headers always have the 64-bit sizes.
  Record local("PK\x03\x04");
  local.u16(version).u16(flags(name)).u16(0).u16(0).u16(date).u32(sum).u32(see_extra).u32(see_extra);
  local.u16(name.size()).u16(20).text(name).u16(1).u16(16).u64(bytes).u64(bytes);
  put(local.bytes());
  put(head);
  put(body.data(), body.size());
}

std::string ZipWriter::directory_record(const Entry& entry) {
  const bool large = entry.bytes > small;
  const bool far = entry.offset > small;
  Record extra("");
  if (large || far) extra.u16(1).u16((large ? 16 : 0) + (far ? 8 : 0));
  if (large) extra.u64(entry.bytes).u64(entry.bytes);
  if (far) extra.u64(entry.offset);
  const std::uint64_t bytes = large ? see_extra : entry.bytes;
  constexpr std::uint16_t made_on_unix = 3U << 8;
  Record record("PK\x01\x02");
  record.u16(made_on_unix | version).u16(version).u16(flags(entry.name)).u16(0).u16(0).u16(date);
  record.u32(entry.checksum).u32(bytes).u32(bytes).u16(entry.name.size()).u16(extra.bytes().size());
  record.u16(0).u16(0).u16(0).u32(mode).u32(far ? see_extra : entry.offset);
  return record.text(entry.name).text(extra.bytes()).bytes();
}

void ZipWriter::finish() {
  const std::uint64_t start = written_;
  for (const Entry& entry : entries_) put(directory_record(entry));
  const std::uint64_t end = written_;
  const std::uint64_t count = entries_.size();
  if (count > 0xffff || start > small || end - start > small) {
    Record record("PK\x06\x06");
    record.u64(44).u16(version).u16(version).u32(0).u32(0).u64(count).u64(count).u64(end - start).u64(start);
    Record locator("PK\x06\x07");
    locator.u32(0).u64(end).u32(1);
    put(record.bytes());
    put(locator.bytes());
  }
  const std::uint64_t shown_count = std::min<std::uint64_t>(count, 0xffff);
  Record record("PK\x05\x06");
  record.u16(0).u16(0).u16(shown_count).u16(shown_count);
  record.u32(std::min<std::uint64_t>(end - start, see_extra))
      .u32(std::min<std::uint64_t>(start, see_extra))
      .u16(0);
  put(record.bytes());
}

}  // namespace headlens::io

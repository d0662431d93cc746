// Zip archives with every field open to lies.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/checksum.hpp"

namespace headlens::test {

inline std::string little(std::uint64_t value, int width) {
  std::string bytes;
  for (int i = 0; i < width; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xffU);
  return bytes;
}

struct ZipEntry {
  std::string name;
  std::string contents;  // as they lie in the archive
  std::uint16_t method = 0;
  std::uint64_t size = 0;  // uncompressed
  std::uint64_t packed_size = 0;
  std::uint32_t checksum = 0;
  std::uint16_t flags = 0;
};

inline ZipEntry stored(const std::string& name, const std::string& contents) {
  return {.name = name,
          .contents = contents,
          .size = contents.size(),
          .packed_size = contents.size(),
          .checksum = io::checksum(contents.data(), contents.size())};
}

// A deflate stream may consist of one uncompressed block.
inline ZipEntry deflated(const std::string& name, const std::string& contents) {
  ZipEntry entry = stored(name, contents);
  entry.contents = "\x01" + little(contents.size(), 2) + little(~contents.size() & 0xffffU, 2) + contents;
  entry.packed_size = entry.contents.size();
  entry.method = 8;
  return entry;
}

inline std::string zip(const std::vector<ZipEntry>& entries) {
  std::string archive;
  std::string directory;
  for (const ZipEntry& entry : entries) {
    // 64-bit sizes in the extra field, so that absurd ones can be announced too.
    const std::string extra =
        little(1, 2) + little(16, 2) + little(entry.size, 8) + little(entry.packed_size, 8);
    const std::string shared = little(45, 2) + little(entry.flags, 2) + little(entry.method, 2) +
                               little(0, 2) + little(33, 2) + little(entry.checksum, 4) +
                               little(0xffffffff, 4) + little(0xffffffff, 4) + little(entry.name.size(), 2) +
                               little(extra.size(), 2);
    directory += "PK\x01\x02" + little(45, 2) + shared + little(0, 8) + little(0, 2) +
                 little(archive.size(), 4) + entry.name + extra;
    archive += "PK\x03\x04" + shared + entry.name + extra + entry.contents;
  }
  const std::uint64_t start = archive.size();
  archive += directory;
  return archive + "PK\x05\x06" + little(0, 4) + little(entries.size(), 2) + little(entries.size(), 2) +
         little(directory.size(), 4) + little(start, 4) + little(0, 2);
}

}  // namespace headlens::test

// Bytes with a known end, read once from front to back: a file, a buffer or one entry of an archive.
// The parsers see only this, so that fuzzers feed them from memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "headlens/error.hpp"
#include "io/file_descriptor.hpp"

namespace headlens::io {

class ByteReader {
 public:
  virtual ~ByteReader() = default;
  ByteReader(const ByteReader&) = delete;
  ByteReader& operator=(const ByteReader&) = delete;

  const std::string& label() const { return label_; }  // "data.npz: keys", ready to begin an error with
  std::uint64_t remaining() const { return remaining_; }
  void skip(std::uint64_t bytes);           // as read(), without keeping them
  void read(void* out, std::size_t bytes);  // all of them; asking for more than remaining() is an Error

 protected:
  ByteReader(std::string label, std::uint64_t size) : label_(std::move(label)), remaining_(size) {}
  virtual void fetch(void* out, std::size_t bytes) = 0;
  virtual bool jump(std::uint64_t) { return false; }  // true if that many bytes are behind us without a read

 private:
  std::string label_;
  std::uint64_t remaining_;
};

class MemoryReader final : public ByteReader {
 public:
  MemoryReader(std::span<const std::byte> bytes, std::string label)
      : ByteReader(std::move(label), bytes.size()), next_(bytes.data()) {}

 private:
  void fetch(void* out, std::size_t bytes) override;
  const std::byte* next_;
};

// A regular file opened for reading, and its size. Error{environment} "cannot open FILE: No such file or
// directory".
struct OpenedFile {
  FileDescriptor file;
  std::uint64_t bytes;
};
OpenedFile open_file(const std::filesystem::path& path);

class FileReader final : public ByteReader {
 public:
  explicit FileReader(const std::filesystem::path& path);

 private:
  FileReader(const std::filesystem::path& path, OpenedFile opened);
  void fetch(void* out, std::size_t bytes) override;
  FileDescriptor file_;
};

template <class... Parts>
[[noreturn]] void fail(const ByteReader& in, const Parts&... parts) {
  throw Error(ErrorCode::misuse, join(in.label(), ": ", parts...));
}

template <class... Parts>
void expect(const ByteReader& in, bool holds, const Parts&... parts) {
  if (!holds) fail(in, parts...);
}

}  // namespace headlens::io

#include "io/byte_reader.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <vector>

#include "io/printable.hpp"

namespace headlens::io {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& reason) {
  throw Error(ErrorCode::environment, fmt::format("cannot open {}: {}", printable(path.string()), reason));
}

}  // namespace

void ByteReader::read(void* out, std::size_t bytes) {
  expect(*this, bytes <= remaining_, "ends early: ", bytes, " bytes expected, ", remaining_, " left");
  if (bytes > 0) fetch(out, bytes);
  remaining_ -= bytes;
}

void ByteReader::skip(std::uint64_t bytes) {
  expect(*this, bytes <= remaining_, "ends early: ", bytes, " bytes to skip, ", remaining_, " left");
  if (bytes > 0 && jump(bytes)) {
    remaining_ -= bytes;
    return;
  }
  std::vector<std::byte> buffer(std::min<std::uint64_t>(bytes, std::uint64_t{1} << 20));
  for (std::uint64_t left = bytes; left > 0;) {
    const std::size_t some = std::min<std::uint64_t>(left, buffer.size());
    read(buffer.data(), some);
    left -= some;
  }
}

void MemoryReader::fetch(void* out, std::size_t bytes) {
  std::memcpy(out, next_, bytes);
  next_ += bytes;
}

OpenedFile open_file(const std::filesystem::path& path) {
  // Without O_NONBLOCK, opening a FIFO would wait for a writer before we could refuse it.
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file.is_open() || ::fstat(file.number(), &status) != 0)
    refuse(path, std::generic_category().message(errno));
  if (S_ISDIR(status.st_mode)) refuse(path, "it is a directory");
  if (!S_ISREG(status.st_mode))
    refuse(path, "it is not a regular file (a pipe or a device has no known end)");
  return {std::move(file), static_cast<std::uint64_t>(status.st_size)};
}

FileReader::FileReader(const std::filesystem::path& path) : FileReader(path, open_file(path)) {}

FileReader::FileReader(const std::filesystem::path& path, OpenedFile opened)
    : ByteReader(printable(path.string()), opened.bytes), file_(std::move(opened.file)) {}

void FileReader::fetch(void* out, std::size_t bytes) {
  constexpr std::size_t chunk_bytes = std::size_t{1} << 30;  // Linux reads less than 2 GiB at a time
  char* next = static_cast<char*>(out);
  while (bytes > 0) {
    const ::ssize_t done = ::read(file_.number(), next, std::min(bytes, chunk_bytes));
    if (done < 0 && errno == EINTR) continue;
    const char* reason = done < 0 ? std::strerror(errno) : "it became shorter while it was read";
    if (done <= 0) throw Error(ErrorCode::environment, fmt::format("cannot read {}: {}", label(), reason));
    next += done;
    bytes -= static_cast<std::size_t>(done);
  }
}

}  // namespace headlens::io

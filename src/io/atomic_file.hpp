// A file that appears under its name whole or not at all.
//
// Bytes go to a temporary file in the target's folder, named ".NAME.tmp-PID-N"; commit() flushes it to disk
// and renames it over the target. Without commit() the temporary is removed and an earlier file stays as it
// was. After a kill -9 a temporary may remain, but never under a name that is read.
//
// A target that is a symbolic link is written where the link points. One that is not a regular file
// (/dev/null, /dev/stdout, a FIFO) cannot be renamed over, so it is written directly. While a FileGroup
// lives, commit() leaves the renaming to the group.
//
// Any failing system call throws Error{environment}: "cannot write TARGET: No space left on device".
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "io/file_descriptor.hpp"

namespace headlens::io {

// What `path` points to, which need not exist yet. Empty for names of descriptors that are already open
// (/dev/stdout, /proc/self/fd/3): whoever opened those holds the file itself and would not see it replaced.
std::filesystem::path follow_links(std::filesystem::path path);

// Temporary files are counted (unfinished_files()) from their creation to one of these two.
void remove_temporary(const std::filesystem::path& temporary);
void replace_file(const std::filesystem::path& temporary, const std::filesystem::path& target);

class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& target);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* bytes, std::size_t size);
  void write(std::string_view bytes) { write(bytes.data(), bytes.size()); }
  void commit();

 private:
  [[noreturn]] void fail(int system_error) const;
  void open_directly(const std::filesystem::path& target);
  void open_temporary();
  void close();

  std::string shown_;                // the target as the user wrote it
  std::filesystem::path folder_;     // of that name, for messages
  std::filesystem::path final_;      // the same with links followed; empty when written directly
  std::filesystem::path temporary_;  // empty once there is nothing to remove
  FileDescriptor file_;
};

}  // namespace headlens::io

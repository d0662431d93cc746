// Whether SQLite's write-ahead log works where a store lies. The log is shared memory of the processes of one
// kernel: on a file system that several machines mount, two of them corrupt the store without a word.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>

namespace headlens {

// "NFS", "Lustre", ...; nothing for a file system of one machine. `type` is f_type of statfs.
std::optional<std::string_view> network_file_system(std::uint64_t type);

// Of the folder that holds `path`, which need not exist.
std::optional<std::string_view> network_file_system(const std::filesystem::path& path);

// Throws Error where a store at `path` would lie on a file system of several machines.
void require_own_disk(const std::filesystem::path& path);

// Every folder seems to be of this type while this lives. For tests.
class FileSystemReplacement {
 public:
  explicit FileSystemReplacement(std::uint64_t type);
  ~FileSystemReplacement();
  FileSystemReplacement(const FileSystemReplacement&) = delete;
  FileSystemReplacement& operator=(const FileSystemReplacement&) = delete;
};

}  // namespace headlens

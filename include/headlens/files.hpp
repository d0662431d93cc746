// Files that are about to be written: whether they can be, and several of them as one.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace headlens {

// Error{environment} unless `path` can be written: its folder is missing, is no folder or takes no file, or
// the path is a folder itself. To be called before work whose result would be lost. Leaves nothing behind.
void check_writable(const std::filesystem::path& path);

// Whether both names lead to one file, links of both kinds followed. The file need not exist. Devices and
// pipes are never the same: what is written to them replaces nothing.
bool same_file(const std::filesystem::path& a, const std::filesystem::path& b);

// How many temporary files of unfinished outputs this process has on disk now. Safe to call from a signal
// handler: a process that ends while there is none leaves nothing behind.
int unfinished_files();

// What a call of this rank kept of its sums (Execution::checkpoint), and the folder if nothing else is in it.
void remove_checkpoints(const std::filesystem::path& folder, int rank, int ranks);

// Files that this thread writes while a group lives appear together, at commit(); without it none does, and
// earlier files stay as they were. What goes to devices and pipes is written at once.
class FileGroup {
 public:
  FileGroup();
  ~FileGroup();
  FileGroup(const FileGroup&) = delete;
  FileGroup& operator=(const FileGroup&) = delete;

  void commit();

  // For the writer of files: takes over a finished temporary file. False if no group lives on this thread.
  static bool take(const std::filesystem::path& temporary, const std::filesystem::path& target);

 private:
  struct Pending {
    std::filesystem::path temporary, target;
  };
  std::vector<Pending> pending_;
};

}  // namespace headlens

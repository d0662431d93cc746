// The files that a report wrote into its folder, listed there with their checksums.
//
// DIR/.headlens-report holds a line per file. A file that is listed and has the checksum of its line was
// written by a report and may be replaced; every other file is the user's, a figure edited by hand included.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace headlens::report {

inline constexpr const char* kFileList = ".headlens-report";

struct ListedFile {
  std::string name;  // "index.html" or "figures/NAME"
  std::uint32_t checksum = 0;
};
using FileList = std::vector<ListedFile>;

FileList list_files(const std::filesystem::path& folder, const std::vector<std::string>& names);
FileList read_file_list(const std::filesystem::path& folder);  // lines of any other form are ignored
void write_file_list(const std::filesystem::path& folder, const FileList& files);

// A regular file that is as one of the lines says.
bool is_as_written(const std::filesystem::path& folder, const FileList& files, const std::string& name);

}  // namespace headlens::report

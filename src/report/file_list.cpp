#include "report/file_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>

#include "headlens/arrays.hpp"
#include "io/checksum.hpp"

namespace headlens::report {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kDigits = 8;  // of a CRC-32

std::uint32_t checksum_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  return io::checksum(bytes.data(), bytes.size());
}

// Names that a report writes: a list that somebody edited must not reach out of the folder.
bool is_name_of_ours(const std::string& name) {
  const std::string figures = "figures/";
  return name == "index.html" ||
         (name.starts_with(figures) && name.find('/', figures.size()) == std::string::npos);
}

}  // namespace

FileList list_files(const fs::path& folder, const std::vector<std::string>& names) {
  FileList files;
  for (const std::string& name : names) files.push_back({name, checksum_of(folder / name)});
  return files;
}

FileList read_file_list(const fs::path& folder) {
  FileList files;
  std::ifstream file(folder / kFileList);
  for (std::string line; std::getline(file, line);) {
    if (line.size() < kDigits + 2 || line[kDigits] != ' ') continue;
    ListedFile listed{line.substr(kDigits + 1)};
    const auto [end, error] = std::from_chars(line.data(), line.data() + kDigits, listed.checksum, 16);
    if (error == std::errc{} && end == line.data() + kDigits && is_name_of_ours(listed.name))
      files.push_back(std::move(listed));
  }
  return files;
}

void write_file_list(const fs::path& folder, const FileList& files) {
  std::string text =
      "The files of this report with their CRC-32. The next report replaces them, and no other file.\n";
  for (const ListedFile& file : files) text += fmt::format("{:08x} {}\n", file.checksum, file.name);
  write_text(folder / kFileList, text);
}

bool is_as_written(const fs::path& folder, const FileList& files, const std::string& name) {
  const fs::path path = folder / name;
  if (!fs::is_regular_file(fs::symlink_status(path))) return false;
  const std::uint32_t checksum = checksum_of(path);
  return std::any_of(files.begin(), files.end(),
                     [&](const ListedFile& file) { return file.name == name && file.checksum == checksum; });
}

}  // namespace headlens::report

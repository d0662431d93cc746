#include "data/data_files.hpp"

#include <glob.h>

#include <algorithm>

#include "headlens/error.hpp"

namespace headlens {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> matching(const fs::path& pattern) {
  glob_t found{};
  std::vector<fs::path> out;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
    out.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return out;
}

std::vector<fs::path> inside(const fs::path& folder) {
  std::vector<fs::path> out;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".npz") out.push_back(entry.path());
  return out;
}

}  // namespace

std::vector<fs::path> data_files(const fs::path& path) {
  std::error_code none;
  const bool folder = fs::is_directory(path, none);
  const bool pattern =
      !folder && !fs::exists(path, none) && path.string().find_first_of("*?[") != std::string::npos;
  if (!folder && !pattern) return {path};
  std::vector<fs::path> files = folder ? inside(path) : matching(path);
  if (files.empty())
    throw Error(ErrorCode::environment,
                join("cannot read ", path.string(),
                     folder ? ": the folder holds no .npz file" : ": no file matches"));
  std::sort(files.begin(), files.end());  // by bytes, whatever the locale
  return files;
}

}  // namespace headlens

#include "report/folder.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "headlens/error.hpp"
#include "io/printable.hpp"

namespace headlens::report {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStaging = ".headlens-report-";

std::string shown(const fs::path& path) { return io::printable(path.string()); }

bool is_stale(const fs::directory_entry& entry) {  // left by a killed run
  return entry.path().filename().string().starts_with(kStaging);
}

// Something is there, be it a link to nowhere.
bool is_taken(const fs::path& path) { return fs::exists(fs::symlink_status(path)); }

void remove_stale(const fs::path& target) {
  for (const fs::directory_entry& entry : fs::directory_iterator(target))
    if (is_stale(entry)) fs::remove_all(entry.path());
}

[[noreturn]] void explain(const fs::path& target, const fs::filesystem_error& error) {
  throw Error(ErrorCode::environment,
              join("cannot write a report to ", shown(target), ": ", error.code().message()));
}

}  // namespace

ReportFolder::ReportFolder(const fs::path& target, std::vector<std::string> names)
    : target_(target), names_(std::move(names)) {
  try {
    if (fs::exists(target_)) {
      earlier_ = read_file_list(target_);
      check();
    } else {
      fs::create_directory(target_);
      created_ = true;
    }
    remove_stale(target_);
    staging_ = target_ / fmt::format("{}{}", kStaging, getpid());
    fs::create_directories(staging_ / "figures");
  } catch (const fs::filesystem_error& error) {
    if (created_) fs::remove_all(target_);
    explain(target_, error);
  }
}

ReportFolder::~ReportFolder() {
  std::error_code ignored;
  fs::remove_all(staging_, ignored);
  if (created_) fs::remove_all(target_, ignored);
}

void ReportFolder::check() const {
  require(fs::is_directory(target_), shown(target_), ": exists and is not a folder");
  if (!is_taken(target_ / kFileList))
    for (const fs::directory_entry& entry : fs::directory_iterator(target_))
      require(
          is_stale(entry), shown(target_), ": holds ", shown(entry.path().filename()), " and no ", kFileList,
          ", the list that a report keeps of its files; choose a new or empty folder, or an earlier report");
  const fs::path figures = target_ / "figures";
  require(!is_taken(figures) || fs::is_directory(fs::symlink_status(figures)), shown(figures),
          ": is not a folder; move it away, or choose another folder for the report");
  for (const std::string& name : names_)
    require(
        !is_taken(target_ / name) || is_as_written(target_, earlier_, name), shown(target_ / name),
        ": would be replaced, but is not as a report wrote it; move it away, or choose another folder for "
        "the report");
}

void ReportFolder::publish() {
  try {
    check();  // again: drawing takes a while
    move_into_place();
  } catch (const fs::filesystem_error& error) {
    explain(target_, error);
  }
  created_ = false;
}

// The list names the files of both reports while files move, so that whatever ends this, the next report
// knows whose they are.
void ReportFolder::move_into_place() {
  std::vector<std::string> written;
  for (const std::string& name : names_)
    if (fs::exists(staging_ / name)) written.push_back(name);
  std::stable_partition(written.begin(), written.end(),
                        [](const std::string& name) { return name != "index.html"; });
  const FileList files = list_files(staging_, written);
  FileList both = earlier_;
  both.insert(both.end(), files.begin(), files.end());
  write_file_list(target_, both);
  fs::create_directories(target_ / "figures");
  for (const std::string& name : written) fs::rename(staging_ / name, target_ / name);
  for (const ListedFile& old : earlier_) {
    const bool kept = std::find(written.begin(), written.end(), old.name) != written.end();
    if (!kept && is_as_written(target_, earlier_, old.name)) fs::remove(target_ / old.name);
  }
  write_file_list(target_, files);
}

}  // namespace headlens::report

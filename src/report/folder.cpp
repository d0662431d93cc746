#include "report/folder.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <string>

#include "headlens/error.hpp"
#include "io/printable.hpp"

namespace headlens::report {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStaging = ".headlens-report-";

std::string shown(const fs::path& path) { return io::printable(path.string()); }

bool is_page_of_ours(const fs::path& page) {
  std::ifstream file(page);
  std::string start(400, '\0');
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  return start.find("<meta name=\"generator\" content=\"headlens report") != std::string::npos;
}

bool is_ours(const fs::directory_entry& entry) {
  static const std::set<std::string> kinds{".svg", ".pdf", ".png", ".csv"};
  const std::string name = entry.path().filename().string();
  if (name.starts_with(kStaging)) return true;  // left by a killed run
  if (name == "index.html") return is_page_of_ours(entry.path());
  if (name != "figures" || !entry.is_directory() || entry.is_symlink()) return false;
  for (const fs::directory_entry& figure : fs::directory_iterator(entry))
    if (!figure.is_regular_file() || !kinds.contains(figure.path().extension().string())) return false;
  return true;
}

void check(const fs::path& target) {
  require(fs::is_directory(target), shown(target), ": exists and is not a folder");
  const bool report = is_page_of_ours(target / "index.html");
  for (const fs::directory_entry& entry : fs::directory_iterator(target)) {
    const bool stale = entry.path().filename().string().starts_with(kStaging);
    require(stale || (report && is_ours(entry)), shown(target), ": holds ", shown(entry.path().filename()),
            ", which is not of a report; expected a new or empty folder, or an earlier report");
  }
}

void remove_stale(const fs::path& target) {
  for (const fs::directory_entry& entry : fs::directory_iterator(target))
    if (entry.path().filename().string().starts_with(kStaging)) fs::remove_all(entry.path());
}

}  // namespace

ReportFolder::ReportFolder(const fs::path& target) : target_(target) {
  try {
    if (fs::exists(target_)) {
      check(target_);
    } else {
      fs::create_directory(target_);
      created_ = true;
    }
    remove_stale(target_);
    staging_ = target_ / fmt::format("{}{}", kStaging, getpid());
    fs::create_directories(staging_ / "figures");
  } catch (const fs::filesystem_error& error) {
    if (created_) fs::remove_all(target_);
    throw Error(ErrorCode::environment,
                join("cannot write a report to ", shown(target_), ": ", error.code().message()));
  }
}

ReportFolder::~ReportFolder() {
  std::error_code ignored;
  fs::remove_all(staging_, ignored);
  if (created_) fs::remove_all(target_, ignored);
}

void ReportFolder::publish() {
  try {
    if (fs::exists(target_ / "figures")) fs::rename(target_ / "figures", staging_ / "earlier");
    fs::rename(staging_ / "figures", target_ / "figures");
    fs::rename(staging_ / "index.html", target_ / "index.html");
  } catch (const fs::filesystem_error& error) {
    throw Error(ErrorCode::environment,
                join("cannot write a report to ", shown(target_), ": ", error.code().message()));
  }
  created_ = false;
}

}  // namespace headlens::report

// The folder of a report: filled out of sight, and shown when it is complete.
//
// New files are written to a hidden folder inside the target and moved to their places at the end, index.html
// last. The target must be new, empty, or hold an earlier report. Of that one, only files that it wrote are
// replaced or removed (file_list.hpp); what else lies there stays, and a file of the user's with the name of
// a new one is refused before anything is drawn.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "report/file_list.hpp"

namespace headlens::report {

class ReportFolder {
 public:
  // `names`: every file that may be written, relative to the folder.
  ReportFolder(const std::filesystem::path& target, std::vector<std::string> names);
  ~ReportFolder();  // without publish(), everything is as before
  ReportFolder(const ReportFolder&) = delete;
  ReportFolder& operator=(const ReportFolder&) = delete;

  const std::filesystem::path& staging() const { return staging_; }  // holds an empty figures/
  void publish();

 private:
  void check() const;
  void move_into_place();

  std::filesystem::path target_, staging_;
  std::vector<std::string> names_;
  FileList earlier_;  // what the report before this one wrote
  bool created_ = false;
};

}  // namespace headlens::report

// The folder of a report: filled out of sight, and shown when it is complete.
//
// New files are written to a hidden folder inside the target and moved to their places at the end, index.html
// last. The target must be new, empty, or hold an earlier report and nothing else: what a user keeps there is
// never replaced.
#pragma once

#include <filesystem>

namespace headlens::report {

class ReportFolder {
 public:
  explicit ReportFolder(const std::filesystem::path& target);
  ~ReportFolder();  // without publish(), everything is as before
  ReportFolder(const ReportFolder&) = delete;
  ReportFolder& operator=(const ReportFolder&) = delete;

  const std::filesystem::path& staging() const { return staging_; }  // holds an empty figures/
  void publish();

 private:
  std::filesystem::path target_, staging_;
  bool created_ = false;
};

}  // namespace headlens::report

// A folder to look at and to cite from: index.html, figures as SVG, PDF and PNG, and the CSV behind each.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "headlens/execution.hpp"
#include "headlens/study.hpp"

namespace headlens {

struct ReportFigure {
  std::string name;  // of its files: name.svg, name.pdf, name.png, name.csv
  std::string title;
};

struct FindingResult {
  std::string text;     // the claim
  bool holds = false;   // at every point where it could be judged
  std::string verdict;  // generated from the numbers
};

struct Report {
  std::filesystem::path page;
  std::vector<ReportFigure> figures;
  std::vector<FindingResult> findings;
};

Report write_report(const std::vector<StudyResults>& results, const std::filesystem::path& folder,
                    const Execution& execution);

}  // namespace headlens

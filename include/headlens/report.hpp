// A folder to look at and to cite from: index.html, figures as SVG, PDF and PNG, and the CSV behind each.
//
// Figures are drawn by gnuplot, which has to be installed. The folder must be new, empty or an earlier
// report. The files of an earlier report are replaced once the new ones are complete; other files stay.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "headlens/execution.hpp"
#include "headlens/study.hpp"

namespace headlens {

struct ReportFigure {
  std::string study;
  std::string name;  // of its files: figures/name.svg, .pdf, .png and .csv
  std::string title;
};

enum class FindingStatus {
  holds,          // wherever at least two seeds judge it
  holds_in_part,  // at some x of its range, not at all
  does_not_hold,  // nowhere, and the opposite somewhere
  undecided,      // no x at which the seeds tell the two sides apart
};
std::string name(FindingStatus status);  // "holds in part"

struct FindingResult {
  std::string study;
  std::string text;  // the claim
  FindingStatus status = FindingStatus::undecided;
  std::string verdict;  // generated from the numbers
};

struct Report {
  std::filesystem::path page;
  std::vector<ReportFigure> figures;
  std::vector<FindingResult> findings;
  Index cells = 0, failed = 0, missing = 0;
};

// `title` is that of the page; without one it has the title of its study, or one for all of them.
Report write_report(const std::vector<StudyResults>& results, const std::filesystem::path& folder,
                    const Execution& execution, const std::string& title = "");

}  // namespace headlens

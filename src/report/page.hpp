// index.html: one file with everything inline, readable offline, in light and dark, without scripts.
#pragma once

#include <string>
#include <vector>

#include "report/draw/figures.hpp"
#include "report/finding.hpp"

namespace headlens::report {

struct PageFigure {
  std::string name;  // of its files
  FigureData data;
  std::string svg, narrow_svg;  // empty where there is nothing to draw; panels side by side, and stacked
};

struct PageFinding {
  FindingSpec spec;
  Comparison comparison;
  FindingResult result;
  std::string svg;  // empty where nothing has been compared
};

struct PageStudy {
  const StudyResults* results = nullptr;
  std::string id;  // unique on the page
  std::vector<PageFigure> figures;
  std::vector<PageFinding> findings;
};

struct CellCounts {
  Index total = 0, done = 0, failed = 0, missing = 0;
};
CellCounts count_cells(const StudyResults& results);

// An empty title: that of the study, or of all of them.
std::string page(const std::vector<PageStudy>& studies, const std::string& title);
std::string provenance(const StudyResults& results);  // HTML: command, versions, machines, the study file

}  // namespace headlens::report

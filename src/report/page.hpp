// index.html: one file with everything inline, readable offline, in light and dark, without scripts.
#pragma once

#include <string>
#include <vector>

#include "report/figures.hpp"
#include "report/finding.hpp"

namespace headlens::report {

struct PageFigure {
  std::string name;  // of its files
  FigureData data;
  std::string svg;  // empty where there is nothing to draw
};

struct PageFinding {
  FindingSpec spec;
  Comparison comparison;
  FindingResult result;
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

std::string page(const std::vector<PageStudy>& studies);
std::string provenance(const StudyResults& results);  // HTML: command, versions, machines, the study file

}  // namespace headlens::report

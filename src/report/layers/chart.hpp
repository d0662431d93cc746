// Figures of pages about one layer: lines over panels, and grids of coloured cells.
#pragma once

#include <string>
#include <vector>

#include "report/draw/canvas.hpp"
#include "report/draw/layout.hpp"

namespace headlens::report {

// Lines of one name have one style on all panels.
struct Line {
  std::string name;
  std::vector<double> x, y;
};
struct Panel {
  std::string title;
  std::vector<Line> lines;
};
struct Chart {
  std::string x, y;  // titles of the axes
  std::vector<Panel> panels;
  bool joined = true, markers = true;
};
bool can_draw(const Chart& chart);  // there is a finite number; on logarithmic axes zeros are left out
Canvas draw(const Chart& chart, Form form);
std::string csv(const Chart& chart);

// A matrix of numbers from 0 to 1, one panel each.
struct Grid {
  std::string title;
  std::vector<std::string> rows, columns;
  std::vector<std::vector<double>> values;
};
struct Grids {
  std::string row_title, column_title;
  std::vector<Grid> panels;  // all of one size
};
Canvas draw(const Grids& grids, Form form);
std::string csv(const Grids& grids);

}  // namespace headlens::report

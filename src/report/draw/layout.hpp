// Where the panels of a figure go, and what frames them: legend, titles, axes.
#pragma once

#include <string>
#include <vector>

#include "report/draw/canvas.hpp"
#include "report/draw/scale.hpp"

namespace headlens::report {

struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;
  double middle_x() const { return (left + right) / 2; }
  double middle_y() const { return (top + bottom) / 2; }
};

struct Margins {
  double left = 70, right = 22, top = 16, bottom = 56;
  double gap_x = 26, gap_y = 92;  // between panels
};

struct LegendEntry {
  std::string name;
  SeriesStyle style;
  bool line_only = false;  // a dashed line without a marker
};

struct Layout {
  double width = 0, height = 0;
  std::size_t columns = 1;
  std::vector<Box> panels;    // row by row
  std::vector<Place> legend;  // where each entry begins
  bool begins_row(std::size_t panel) const { return panel % columns == 0; }
};

// Wide: panels side by side, for files and large screens. Narrow: panels below each other, as wide as a
// telephone's screen.
enum class Form { wide, narrow };
inline constexpr double kNarrowWidth = 350;

struct PanelSize {
  double width = 0, height = 0;
};
std::size_t panel_columns(std::size_t panels, Form form);
PanelSize curve_panel_size(std::size_t panels, const Margins& margins,
                           Form form);  // fewer panels, larger ones

Layout arrange(std::size_t panels, PanelSize size, const Margins& margins,
               const std::vector<LegendEntry>& legend, bool titled, Form form);

void draw_legend(Canvas& canvas, const Layout& layout, const std::vector<LegendEntry>& legend);
void draw_title(Canvas& canvas, const Box& box, const std::string& title);
void draw_x_axis(Canvas& canvas, const Box& box, const Scale& x, const std::vector<Tick>& ticks,
                 const std::string& title);
void draw_y_axis(Canvas& canvas, const Box& box, const Scale& y, const std::string& title, bool labelled);

}  // namespace headlens::report

// The figures of a report: each a drawing, and the numbers behind it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "report/canvas.hpp"
#include "report/growth.hpp"
#include "report/sample_size.hpp"
#include "report/summarise.hpp"
#include "report/theory_overlay.hpp"

namespace headlens::report {

struct SampleSizeRow {
  std::string panel, series;
  std::vector<std::optional<SampleSize>> sizes;  // one for each of kErrors
};

struct FigureData {
  FigureSpec spec;
  std::string quantity;  // what is drawn or measured
  Summary summary;
  std::vector<SampleSizeRow> sizes;  // of a sample table
  TheoryOverlay theory;              // empty unless asked for
  Growth growth;                     // of a growth figure
  std::vector<std::size_t> styles;   // of each series of the summary, as series_style() counts
};

// A series keeps its colour and marker in all figures of a page, as long as no two in one figure get the
// same.
class StyleBook {
 public:
  std::vector<std::size_t> styles(const std::vector<std::string>& series);

 private:
  std::map<std::string, std::size_t> known_;
};

bool is_curves(FigureKind kind);  // learning curves, head curves and growth

FigureData figure_data(const StudyResults& results, const FigureSpec& spec);

// What a phase diagram shows of a cell of its grid: the share of successes, or the median of other numbers.
double shown_value(const Point& point, const Summary& summary);

bool can_draw(const FigureData& data);  // at least one value has a place
Canvas draw(const FigureData& data);
Canvas draw_curves(const FigureData& data);
Canvas draw_phase_diagram(const FigureData& data);
Canvas draw_sample_sizes(const FigureData& data);

}  // namespace headlens::report

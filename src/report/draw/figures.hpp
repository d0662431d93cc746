// The figures of a report: each a drawing, and the numbers behind it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/draw/canvas.hpp"
#include "report/draw/layout.hpp"
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
  std::vector<SeriesStyle> styles;   // of each series of the summary
};

bool is_curves(FigureKind kind);  // learning curves, head curves and growth

FigureData figure_data(const StudyResults& results, const FigureSpec& spec);

// What a phase diagram shows of a cell of its grid: the share of successes, or the median of other numbers.
double shown_value(const Point& point, const Summary& summary);

bool can_draw(const FigureData& data);  // at least one value has a place
Canvas draw(const FigureData& data, Form form);
Canvas draw_curves(const FigureData& data, Form form);
Canvas draw_phase_diagram(const FigureData& data, Form form);
Canvas draw_sample_sizes(const FigureData& data, Form form);

}  // namespace headlens::report

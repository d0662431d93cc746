// Sample sizes as points with intervals, one row a series: what is not reached points out of the panel.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "report/draw/figures.hpp"
#include "report/draw/layout.hpp"
#include "report/escape.hpp"
#include "report/vocabulary.hpp"

namespace headlens::report {
namespace {

constexpr double kRowHeight = 64, kLane = 17;

// The marker tells the error, the colour the series.
int error_marker(std::size_t index) { return std::array{7, 5, 9}.at(index); }

std::vector<LegendEntry> legend_of_errors(const std::string& quantity) {
  std::vector<LegendEntry> entries;
  for (std::size_t i = 0; i < std::size(kErrors); ++i)
    entries.push_back(
        {fmt::format("{} {}", term(quantity), number(kErrors[i])), {colour::kSoft, error_marker(i), ""}});
  return entries;
}

struct SampleAxes {
  Scale x;
  std::vector<Tick> ticks;
};

SampleAxes common_axis(const FigureData& data) {
  std::vector<double> values;
  std::vector<Tick> ticks;
  for (const Curve& curve : data.summary.curves)
    for (const Point& point : curve.points) {
      if (point.values.empty() || !std::isfinite(point.x) || point.x <= 0) continue;
      const bool known = std::find(values.begin(), values.end(), point.x) != values.end();
      if (!known) ticks.push_back({point.x, text(point.x_value)});
      values.push_back(point.x);
    }
  std::sort(ticks.begin(), ticks.end(), [](const Tick& a, const Tick& b) { return a.value < b.value; });
  return {Scale(values, 0.12), ticks};  // room for the arrows
}

// Where a bound ends: at its value, or a step beyond the panel's data where it is only a bound.
double end_of(const Crossing& crossing, const Scale& x) {
  const double step = crossing.reach == Reach::between ? 0 : crossing.reach == Reach::not_reached ? 22 : -22;
  return x(crossing.n) + step;
}

void draw_arrow(Canvas& canvas, double x, double y, double direction, const std::string& colour) {
  canvas.line({{x - 5 * direction, y - 4}, {x, y}, {x - 5 * direction, y + 4}}, colour, 1.6);
}

void draw_size(Canvas& canvas, const Scale& x, double y, const SampleSize& size, const SeriesStyle& style) {
  const Crossing low = size.interval ? size.interval->first : size.estimate;
  const Crossing high = size.interval ? size.interval->second : size.estimate;
  canvas.line({{end_of(low, x), y}, {end_of(high, x), y}}, style.colour, 1.6);
  if (low.reach == Reach::at_or_before) draw_arrow(canvas, end_of(low, x), y, -1, style.colour);
  if (high.reach == Reach::not_reached) draw_arrow(canvas, end_of(high, x), y, 1, style.colour);
  if (low.reach != Reach::between && low == high)
    canvas.line({{x(low.n), y}, {end_of(low, x), y}}, style.colour, 1.6);
  const bool known = size.estimate.reach == Reach::between;
  canvas.markers({{x(size.estimate.n), y}}, colour::kBack, style.marker, 1.35);
  canvas.markers({{x(size.estimate.n), y}}, style.colour, style.marker + (known ? 0 : kOpen), 1.1);
}

void draw_row(Canvas& canvas, const SampleSizeRow& row, const Scale& x, double middle, SeriesStyle style) {
  for (std::size_t i = 0; i < row.sizes.size(); ++i) {
    style.marker = error_marker(i);
    if (row.sizes[i])
      draw_size(canvas, x, middle + kLane * (static_cast<double>(i) - 1), *row.sizes[i], style);
  }
}

}  // namespace

Canvas draw_sample_sizes(const FigureData& data, Form form) {
  const std::vector<std::string>&panels = data.summary.panels, &series = data.summary.series;
  const std::vector<LegendEntry> legend = legend_of_errors(data.quantity);
  const std::size_t characters = form == Form::narrow ? 13 : 26;
  double label = 0;
  for (const std::string& name : series) label = std::max(label, text_width(cut(name, characters), 12.5));
  const bool titled = panels.size() > 1 || !panels.front().empty();
  const Margins margins{.left = 24 + label, .right = form == Form::narrow ? 12.0 : 22.0};
  PanelSize size = curve_panel_size(panels.size(), margins, form);
  size.height = kRowHeight * static_cast<double>(series.size());
  if (form == Form::wide)
    size.width =
        std::max(size.width - label / static_cast<double>(panel_columns(panels.size(), form)), 180.0);
  const Layout layout = arrange(panels.size(), size, margins, legend, titled, form);
  Canvas canvas(layout.width, layout.height);
  draw_legend(canvas, layout, legend);
  SampleAxes axes = common_axis(data);
  for (std::size_t i = 0; i < panels.size(); ++i) {
    const Box& box = layout.panels[i];
    axes.x.set_pixels(box.left, box.right);
    draw_x_axis(canvas, box, axes.x, axes.ticks, term(data.spec.x));
    if (!panels[i].empty()) draw_title(canvas, box, panels[i]);
    for (std::size_t k = 0; k < series.size(); ++k) {
      const double top = box.top + kRowHeight * static_cast<double>(k);
      canvas.line({{box.left, top}, {box.right, top}}, colour::kGrid, 1);
      if (layout.begins_row(i))
        canvas.text({box.left - 12, top + kRowHeight / 2}, cut(series[k], characters),
                    {.size = 12.5, .anchor = Anchor::right});
      for (const SampleSizeRow& row : data.sizes)
        if (row.panel == panels[i] && row.series == series[k])
          draw_row(canvas, row, axes.x, top + kRowHeight / 2, data.styles[k]);
    }
  }
  return canvas;
}

}  // namespace headlens::report

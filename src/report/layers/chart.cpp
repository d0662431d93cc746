#include "report/layers/chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "report/draw/colour_map.hpp"
#include "report/draw/scale.hpp"
#include "report/escape.hpp"

namespace headlens::report {
namespace {

constexpr std::array<const char*, 9> kColours{"#0072b2", "#d55e00", "#009e73", "#7b4fb0", "#a87400",
                                              "#c2528b", "#6b7280", "#8c564b", "#2f3e55"};
constexpr std::array<int, 6> kMarkers{7, 5, 9, 13, 11, 15};
constexpr std::array<const char*, 3> kDashes{"", "(12,6)", "(3,5)"};

SeriesStyle style_of(std::size_t i) {
  return {kColours[i % kColours.size()], kMarkers[i % kMarkers.size()], kDashes[i / kColours.size() % 3]};
}

std::vector<std::string> names_of(const Chart& chart) {
  std::vector<std::string> out;
  for (const Panel& panel : chart.panels)
    for (const Line& line : panel.lines)
      if (std::find(out.begin(), out.end(), line.name) == out.end()) out.push_back(line.name);
  return out;
}

bool has_place(double x, double y) { return std::isfinite(x) && std::isfinite(y) && y > 0; }

struct Points {
  std::vector<double> x, y;
};
Points points_of(const Chart& chart) {
  Points out;
  for (const Panel& panel : chart.panels)
    for (const Line& line : panel.lines)
      for (std::size_t i = 0; i < line.x.size(); ++i)
        if (has_place(line.x[i], line.y[i])) out.x.push_back(line.x[i]), out.y.push_back(line.y[i]);
  return out;
}

void draw_lines(Canvas& canvas, const Chart& chart, const Panel& panel, const std::vector<std::string>& names,
                const Scale& x, const Scale& y) {
  for (const Line& line : panel.lines) {
    const auto place = std::find(names.begin(), names.end(), line.name) - names.begin();
    const SeriesStyle style = style_of(static_cast<std::size_t>(place));
    std::vector<Place> places;
    for (std::size_t i = 0; i < line.x.size(); ++i)
      if (has_place(line.x[i], line.y[i])) places.push_back({x(line.x[i]), y(line.y[i])});
    if (chart.joined && places.size() > 1) canvas.line(places, style.colour, 1.8, style.dash);
    if (!places.empty() && (chart.markers || places.size() == 1))
      canvas.markers(places, style.colour, style.marker, chart.joined ? 0.6 : 1.2);
  }
}

std::string grid_text(double value) { return fmt::format("{:.2f}", value); }

}  // namespace

bool can_draw(const Chart& chart) { return !points_of(chart).x.empty(); }

Canvas draw(const Chart& chart, Form form) {
  const std::vector<std::string> names = names_of(chart);
  std::vector<LegendEntry> legend;
  for (std::size_t i = 0; i < names.size(); ++i) legend.push_back({names[i], style_of(i), !chart.markers});
  const Margins margins{.left = form == Form::narrow ? 66.0 : 70.0,
                        .right = form == Form::narrow ? 12.0 : 22.0};
  const bool titled = chart.panels.size() > 1;
  const Layout layout = arrange(chart.panels.size(), curve_panel_size(chart.panels.size(), margins, form),
                                margins, legend, titled, form);
  Canvas canvas(layout.width, layout.height);
  draw_legend(canvas, layout, legend);
  const Points points = points_of(chart);
  Scale x(points.x, 0.04), y(points.y, 0.08);
  for (std::size_t i = 0; i < chart.panels.size(); ++i) {
    const Box& box = layout.panels[i];
    x.set_pixels(box.left, box.right);
    y.set_pixels(box.bottom, box.top);
    draw_y_axis(canvas, box, y, chart.y, layout.begins_row(i));
    draw_x_axis(canvas, box, x, x.ticks(), chart.x);
    if (titled) draw_title(canvas, box, chart.panels[i].title);
    draw_lines(canvas, chart, chart.panels[i], names, x, y);
  }
  return canvas;
}

std::string csv(const Chart& chart) {
  std::string out = fmt::format("panel,series,{},{}\n", field(chart.x), field(chart.y));
  for (const Panel& panel : chart.panels)
    for (const Line& line : panel.lines)
      for (std::size_t i = 0; i < line.x.size(); ++i)
        out += fmt::format("{},{},{},{}\n", field(panel.title), field(line.name), exact(line.x[i]),
                           exact(line.y[i]));
  return out;
}

Canvas draw(const Grids& grids, Form form) {
  const Grid& first = grids.panels.front();
  const auto columns = static_cast<double>(first.columns.size()),
             rows = static_cast<double>(first.rows.size());
  const Margins margins{.left = 70, .right = form == Form::narrow ? 12.0 : 22.0, .gap_y = 84};
  const bool alone = grids.panels.size() == 1;
  const double room = form == Form::narrow ? kNarrowWidth - margins.left - margins.right : alone ? 560 : 240;
  const double cell = std::min(room / std::max(columns, 1.0), 46.0);
  const Layout layout =
      arrange(grids.panels.size(), {std::max(cell * columns, alone ? 60.0 : 150.0), cell * rows}, margins, {},
              !alone, form);
  Canvas canvas(layout.width, layout.height);
  for (std::size_t g = 0; g < grids.panels.size(); ++g) {
    const Grid& grid = grids.panels[g];
    const Box& box = layout.panels[g];
    if (!alone) draw_title(canvas, box, grid.title);
    const TextStyle soft{.size = 11.5, .anchor = Anchor::centre, .colour = colour::kSoft};
    for (std::size_t i = 0; i < grid.rows.size(); ++i)
      for (std::size_t j = 0; j < grid.columns.size(); ++j) {
        const double left = box.left + cell * static_cast<double>(j),
                     top = box.top + cell * static_cast<double>(i), value = grid.values[i][j];
        canvas.rectangle({left + 0.5, top + 0.5}, {left + cell - 0.5, top + cell - 0.5}, shade(value));
        if (cell >= 32)
          canvas.text({left + cell / 2, top + cell / 2}, grid_text(value),
                      {.size = 11.5, .anchor = Anchor::centre, .colour = ink_on(value)});
        if (i + 1 == grid.rows.size() && (cell >= 18 || j % 2 == 0))
          canvas.text({left + cell / 2, box.bottom + 14}, grid.columns[j], soft);
        if (j == 0 && layout.begins_row(g))
          canvas.text({box.left - 9, top + cell / 2}, grid.rows[i],
                      {.size = 11.5, .anchor = Anchor::right, .colour = colour::kSoft});
      }
    canvas.text({box.left + cell * columns / 2, box.bottom + 36}, grids.column_title, soft);
    if (layout.begins_row(g))
      canvas.text({13, box.middle_y()}, grids.row_title,
                  {.size = 12.5, .anchor = Anchor::centre, .colour = colour::kSoft, .upright = true});
  }
  return canvas;
}

std::string csv(const Grids& grids) {
  std::string out = fmt::format("panel,{},{},value\n", field(grids.row_title), field(grids.column_title));
  for (const Grid& grid : grids.panels)
    for (std::size_t i = 0; i < grid.rows.size(); ++i)
      for (std::size_t j = 0; j < grid.columns.size(); ++j)
        out += fmt::format("{},{},{},{}\n", field(grid.title), field(grid.rows[i]), field(grid.columns[j]),
                           exact(grid.values[i][j]));
  return out;
}

}  // namespace headlens::report

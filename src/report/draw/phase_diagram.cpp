// Phase diagrams: a grid of two axes, each cell coloured by a share or a median, with its number.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/draw/colour_map.hpp"
#include "report/draw/figures.hpp"
#include "report/draw/layout.hpp"
#include "report/escape.hpp"
#include "report/vocabulary.hpp"

namespace headlens::report {
namespace {

constexpr double kCellHeight = 42;

// How bright a value is painted: a share as it is, other numbers by their place between the extremes,
// in logarithms where these are far apart.
struct Brightness {
  double low = 0, high = 1;
  bool logarithmic = false;

  explicit Brightness(const Summary& summary) {
    if (summary.truth) return;
    low = INFINITY, high = -INFINITY;
    for (const Curve& curve : summary.curves)
      for (const Point& point : curve.points)
        if (!point.values.empty()) {
          low = std::min(low, point.median);
          high = std::max(high, point.median);
        }
    logarithmic = low > 0 && high > 10 * low;
  }
  double operator()(double value) const {
    if (!(high > low)) return 0.5;
    return logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
  }
};

std::string shown_text(double value, bool share) {
  return share ? fmt::format("{:.0f}%", 100 * value) : number(value, 2);
}

// Every x of the figure, so that a missing cell leaves a gap and not a shift.
std::vector<Tick> columns_of(const Summary& summary) {
  std::vector<Tick> columns;
  for (const Curve& curve : summary.curves)
    for (const Point& point : curve.points) {
      const std::string label = text(point.x_value);
      const bool known =
          std::any_of(columns.begin(), columns.end(), [&](const Tick& t) { return t.label == label; });
      if (!known) columns.push_back({point.x, label});
    }
  std::stable_sort(columns.begin(), columns.end(),
                   [](const Tick& a, const Tick& b) { return comes_first(a.value, b.value); });
  return columns;
}

// The value of the y axis alone: its name stands beside the axis.
std::string row_label(const std::string& series, const std::string& y, Form form) {
  return cut(without_unit(y, series), form == Form::narrow ? 15 : 24);
}

class Painter {
 public:
  Painter(Canvas& canvas, const FigureData& data, Form form)
      : canvas_(canvas),
        data_(data),
        form_(form),
        brightness_(data.summary),
        columns_(columns_of(data.summary)) {}

  void panel(const Box& box, const std::string& panel, bool first) {
    const std::vector<std::string>& rows = data_.summary.series;
    if (!panel.empty()) draw_title(canvas_, box, panel);
    const double width = (box.right - box.left) / static_cast<double>(columns_.size());
    for (std::size_t i = 0; i < columns_.size(); ++i)
      canvas_.text({box.left + (static_cast<double>(i) + 0.5) * width, box.bottom + 15}, columns_[i].label,
                   {.size = 11.5, .anchor = Anchor::centre, .colour = colour::kSoft});
    canvas_.text({box.middle_x(), box.bottom + 38}, term(data_.spec.x),
                 {.size = 12.5, .anchor = Anchor::centre, .colour = colour::kSoft});
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double top = box.bottom - static_cast<double>(i + 1) * kCellHeight;  // upwards, as axes go
      if (first)
        canvas_.text({box.left - 10, top + kCellHeight / 2}, row_label(rows[i], data_.spec.y, form_),
                     {.size = 11.5, .anchor = Anchor::right, .colour = colour::kSoft});
      row(panel, rows[i], {box.left, top, box.right, top + kCellHeight}, width);
    }
    if (first)
      canvas_.text({13, box.middle_y()}, term(data_.spec.y),
                   {.size = 12.5, .anchor = Anchor::centre, .colour = colour::kSoft, .upright = true});
  }

 private:
  void row(const std::string& panel, const std::string& series, const Box& box, double width) {
    for (const Curve& curve : data_.summary.curves) {
      if (curve.panel != panel || curve.series != series) continue;
      for (const Point& point : curve.points) {
        const std::string label = text(point.x_value);
        const auto column =
            std::find_if(columns_.begin(), columns_.end(), [&](const Tick& t) { return t.label == label; });
        const double left = box.left + static_cast<double>(column - columns_.begin()) * width;
        cell(point, {left + 1, box.top + 1, left + width - 1, box.bottom - 1});
      }
    }
  }

  void cell(const Point& point, const Box& box) {
    if (point.values.empty()) {
      canvas_.rectangle({box.left, box.top}, {box.right, box.bottom}, colour::kGrid);
      canvas_.text({box.middle_x(), box.middle_y()}, "–",
                   {.size = 12, .anchor = Anchor::centre, .colour = colour::kSoft});
      return;
    }
    const double value = shown_value(point, data_.summary), share = brightness_(value);
    canvas_.rectangle({box.left, box.top}, {box.right, box.bottom}, shade(share));
    canvas_.text({box.middle_x(), box.middle_y()}, shown_text(value, data_.summary.truth),
                 {.size = 12.5, .anchor = Anchor::centre, .colour = ink_on(share)});
  }

  Canvas& canvas_;
  const FigureData& data_;
  Form form_;
  Brightness brightness_;
  std::vector<Tick> columns_;
};

}  // namespace

Canvas draw_phase_diagram(const FigureData& data, Form form) {
  const std::vector<std::string>&panels = data.summary.panels, &rows = data.summary.series;
  double label = 0;
  for (const std::string& row : rows)
    label = std::max(label, text_width(row_label(row, data.spec.y, form), 11.5));
  const bool titled = panels.size() > 1 || !panels.front().empty();
  const auto columns = static_cast<double>(columns_of(data.summary).size());
  const Margins margins{.left = 46 + label, .right = form == Form::narrow ? 12.0 : 22.0};
  const std::size_t beside = panel_columns(panels.size(), form);
  const double cell = beside > 2 ? 46 : beside > 1 ? 56 : 74;
  const double room = kNarrowWidth - margins.left - margins.right;
  const double width = form == Form::narrow ? std::max(columns * 34, room) : std::max(columns * cell, 150.0);
  const PanelSize size{width, kCellHeight * static_cast<double>(rows.size())};
  const Layout layout = arrange(panels.size(), size, margins, {}, titled, form);
  Canvas canvas(layout.width, layout.height);
  Painter painter(canvas, data, form);
  for (std::size_t i = 0; i < panels.size(); ++i)
    painter.panel(layout.panels[i], panels[i], layout.begins_row(i));
  return canvas;
}

}  // namespace headlens::report

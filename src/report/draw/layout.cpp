#include "report/draw/layout.hpp"

#include <algorithm>

#include "report/escape.hpp"

namespace headlens::report {
namespace {

constexpr double kLegendRow = 24, kLegendSize = 13, kTickSize = 11.5, kTitle = 30;

}  // namespace

std::size_t panel_columns(std::size_t panels, Form form) {
  if (form == Form::narrow) return 1;
  return panels == 4 ? 2 : std::clamp<std::size_t>(panels, 1, 3);
}

PanelSize curve_panel_size(std::size_t panels, const Margins& margins, Form form) {
  if (form == Form::narrow) return {kNarrowWidth - margins.left - margins.right, 220};
  switch (panel_columns(panels, form)) {
    case 1:
      return {560, 320};
    case 2:
      return {400, 260};
    default:
      return {270, 240};
  }
}

Layout arrange(std::size_t panels, PanelSize size, const Margins& margins,
               const std::vector<LegendEntry>& legend, bool titled, Form form) {
  Layout layout;
  layout.columns = panel_columns(panels, form);
  const auto columns = static_cast<double>(layout.columns);
  layout.width = margins.left + columns * size.width + (columns - 1) * margins.gap_x + margins.right;
  Place next{margins.left, margins.top + kLegendRow / 2};
  for (const LegendEntry& entry : legend) {
    const double needs = 26 + text_width(entry.name, kLegendSize);
    if (next.x > margins.left && next.x + needs > layout.width - 8)
      next = {margins.left, next.y + kLegendRow};
    layout.legend.push_back(next);
    next.x += needs + 22;
  }
  double top = legend.empty() ? margins.top : next.y + kLegendRow / 2 + 12;
  if (titled) top += kTitle;
  for (std::size_t i = 0; i < panels; ++i) {
    const std::size_t row = i / layout.columns, column = i % layout.columns;
    const double left = margins.left + static_cast<double>(column) * (size.width + margins.gap_x);
    const double y = top + static_cast<double>(row) * (size.height + margins.gap_y);
    layout.panels.push_back({left, y, left + size.width, y + size.height});
  }
  layout.height = layout.panels.back().bottom + margins.bottom;
  return layout;
}

void draw_legend(Canvas& canvas, const Layout& layout, const std::vector<LegendEntry>& legend) {
  for (std::size_t i = 0; i < legend.size(); ++i) {
    const auto [x, y] = layout.legend[i];
    const SeriesStyle& style = legend[i].style;
    canvas.line({{x, y}, {x + 20, y}}, style.colour, legend[i].line_only ? 1.5 : 2.2, style.dash);
    if (!legend[i].line_only) canvas.markers({{x + 10, y}}, style.colour, style.marker, 1.1);
    canvas.text({x + 27, y}, legend[i].name, {.size = kLegendSize});
  }
}

void draw_title(Canvas& canvas, const Box& box, const std::string& title) {
  const auto fits = static_cast<std::size_t>((box.right - box.left) / (0.66 * 13.5));
  canvas.text({box.left, box.top - 18}, cut(title, fits), {.size = 13.5, .bold = true});
}

void draw_x_axis(Canvas& canvas, const Box& box, const Scale& x, const std::vector<Tick>& ticks,
                 const std::string& title) {
  for (const Tick& tick : thin(ticks, x, kTickSize)) {
    const double at = x(tick.value);
    canvas.line({{at, box.top}, {at, box.bottom}}, colour::kGrid, 1);
    canvas.line({{at, box.bottom}, {at, box.bottom + 4}}, colour::kAxis, 1);
    canvas.text({at, box.bottom + 15}, tick.label,
                {.size = kTickSize, .anchor = Anchor::centre, .colour = colour::kSoft});
  }
  canvas.line({{box.left, box.bottom}, {box.right, box.bottom}}, colour::kAxis, 1.2);
  canvas.text({box.middle_x(), box.bottom + 38}, title,
              {.size = 12.5, .anchor = Anchor::centre, .colour = colour::kSoft});
}

void draw_y_axis(Canvas& canvas, const Box& box, const Scale& y, const std::string& title, bool labelled) {
  for (const Tick& tick : y.ticks()) {
    const double at = y(tick.value);
    canvas.line({{box.left, at}, {box.right, at}}, colour::kGrid, 1);
    if (labelled)
      canvas.text({box.left - 9, at}, tick.label,
                  {.size = kTickSize, .anchor = Anchor::right, .colour = colour::kSoft});
  }
  if (labelled)
    canvas.text({13, box.middle_y()}, title,
                {.size = 12.5, .anchor = Anchor::centre, .colour = colour::kSoft, .upright = true});
}

}  // namespace headlens::report

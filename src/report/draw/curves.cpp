// Learning curves, head curves and growth: medians over seeds on logarithmic axes, one panel a target. An x
// axis with a value of 0 or below is linear.
#include <algorithm>
#include <cmath>

#include "report/draw/figures.hpp"
#include "report/draw/layout.hpp"
#include "report/escape.hpp"
#include "report/vocabulary.hpp"

namespace headlens::report {
namespace {

struct Axes {
  Scale x, y;
  std::vector<Tick> x_ticks;
};

constexpr const char *kPredictedDash = "(14,8)", *kBoundDash = "(2,8)";
constexpr double kHighestBound = 10;  // of an nmse: above it a bound says nothing, and would flatten the rest

bool has_place(const Point& point) { return !point.values.empty() && std::isfinite(point.x); }
bool is_limit(const Point& point) { return !point.values.empty() && std::isinf(point.x) && point.x > 0; }

Axes common_axes(const FigureData& data) {
  std::vector<double> x, y;
  std::vector<Tick> ticks;
  for (const Curve& curve : data.summary.curves)
    for (const Point& point : curve.points) {
      if (has_place(point) || is_limit(point)) y.insert(y.end(), {point.lower, point.median, point.upper});
      if (!has_place(point)) continue;
      const bool known = std::find(x.begin(), x.end(), point.x) != x.end();
      if (!known) ticks.push_back({point.x, text(point.x_value)});
      x.push_back(point.x);
    }
  for (const TheoryCurve& curve : data.theory.curves)
    for (const TheoryAt& at : curve.points) {
      y.push_back(at.predicted);
      if (at.bound_as_nmse <= kHighestBound) y.push_back(at.bound_as_nmse);
    }
  std::sort(ticks.begin(), ticks.end(), [](const Tick& a, const Tick& b) { return a.value < b.value; });
  if (data.quantity == "nmse") y.push_back(1);  // the error of the mean: worth having in view
  return {Scale(x, 0.05), Scale(y, 0.06), ticks};
}

std::vector<LegendEntry> legend_of(const FigureData& data) {
  std::vector<LegendEntry> entries;
  const std::vector<std::string>& series = data.summary.series;
  for (std::size_t i = 0; i < series.size(); ++i)
    if (!series[i].empty()) entries.push_back({cut(series[i], 60), data.styles[i]});
  bool limits = false;
  for (const Curve& curve : data.summary.curves)
    limits = limits || std::any_of(curve.points.begin(), curve.points.end(), is_limit);
  if (limits) entries.push_back({"infinitely many heads", {colour::kSoft, 0, "(6,5)"}, true});
  if (!data.theory.empty()) {
    entries.push_back({"predicted", {colour::kSoft, 0, kPredictedDash}, true});
    const auto shown = [](const TheoryAt& at) { return at.bound_as_nmse <= kHighestBound; };
    const bool bounds =
        std::any_of(data.theory.curves.begin(), data.theory.curves.end(), [&](const auto& curve) {
          return std::count_if(curve.points.begin(), curve.points.end(), shown) > 1;
        });
    if (bounds) entries.push_back({"bound", {colour::kSoft, 0, kBoundDash}, true});
  }
  return entries;
}

void draw_spread(Canvas& canvas, const Axes& axes, const Curve& curve, const std::string& colour) {
  std::vector<Place> upper, lower;
  for (const Point& point : curve.points) {
    if (!has_place(point)) continue;
    upper.push_back({axes.x(point.x), axes.y(point.upper)});
    lower.push_back({axes.x(point.x), axes.y(point.lower)});
  }
  if (upper.size() == 1) canvas.line({upper[0], lower[0]}, colour, 1.5);
  if (upper.size() < 2) return;
  upper.insert(upper.end(), lower.rbegin(), lower.rend());
  canvas.area(upper, colour, 0.16);
}

void draw_curve(Canvas& canvas, const Axes& axes, const Box& box, const Curve& curve, const Growth& growth,
                const SeriesStyle& style, bool joined) {
  std::vector<Place> places, done, failing;
  for (const Point& point : curve.points) {
    if (has_place(point)) {
      places.push_back({axes.x(point.x), axes.y(point.median)});
      (growth.fails(curve, point) ? failing : done).push_back(places.back());
    }
    if (is_limit(point))
      canvas.line({{box.left, axes.y(point.median)}, {box.right, axes.y(point.median)}}, style.colour, 1.5,
                  "(6,5)");
  }
  if (joined && places.size() > 1) canvas.line(places, style.colour, 2.2, style.dash);
  if (places.empty()) return;
  canvas.markers(places, colour::kBack, style.marker, 1.35);  // a rim keeps markers apart where curves meet
  if (!done.empty()) canvas.markers(done, style.colour, style.marker, 1);
  if (failing.empty()) return;
  canvas.markers(failing, colour::kBack, style.marker, 1);
  canvas.markers(failing, style.colour, style.marker + kOpen, 1.1);
}

void draw_theory(Canvas& canvas, const Axes& axes, const TheoryCurve& curve, const std::string& colour) {
  std::vector<Place> predicted, bound;
  for (const TheoryAt& at : curve.points) {
    if (!std::isfinite(at.x)) continue;  // infinitely many heads have a line of their own
    predicted.push_back({axes.x(at.x), axes.y(at.predicted)});
    if (at.bound_as_nmse <= kHighestBound) bound.push_back({axes.x(at.x), axes.y(at.bound_as_nmse)});
  }
  if (predicted.size() > 1) canvas.line(predicted, colour, 1.6, kPredictedDash);
  if (bound.size() > 1) canvas.line(bound, colour, 1.1, kBoundDash);
}

void draw_panel(Canvas& canvas, const FigureData& data, Axes& axes, const Box& box, const std::string& panel,
                bool first) {
  axes.x.set_pixels(box.left, box.right);
  axes.y.set_pixels(box.bottom, box.top);
  draw_y_axis(canvas, box, axes.y, term(data.quantity), first);
  draw_x_axis(canvas, box, axes.x, axes.x_ticks, term(data.spec.x));
  if (!panel.empty()) draw_title(canvas, box, panel);
  if (data.quantity == "nmse")
    canvas.line({{box.left, axes.y(1)}, {box.right, axes.y(1)}}, colour::kSoft, 1, "(2,4)");
  const std::vector<std::string>& series = data.summary.series;
  // The first series comes last, on top.
  for (std::size_t pass = 0; pass < 2; ++pass)
    for (std::size_t i = series.size(); i-- > 0;)
      for (const Curve& curve : data.summary.curves) {
        if (curve.panel != panel || curve.series != series[i]) continue;
        const SeriesStyle& style = data.styles[i];
        if (pass == 0) {
          if (data.summary.seeds.size() > 1) draw_spread(canvas, axes, curve, style.colour);
          continue;
        }
        // Beside a prediction the measured points stand alone, so that one can be told from the other.
        const TheoryCurve* theory = data.theory.find(curve);
        const bool predicted = theory != nullptr && !theory->points.empty();
        if (predicted) draw_theory(canvas, axes, *theory, style.colour);
        draw_curve(canvas, axes, box, curve, data.growth, style, !predicted);
      }
}

}  // namespace

Canvas draw_curves(const FigureData& data, Form form) {
  const std::vector<std::string>& panels = data.summary.panels;
  const std::vector<LegendEntry> legend = legend_of(data);
  const bool titled = panels.size() > 1 || !panels.front().empty();
  const Margins margins{.left = form == Form::narrow ? 66.0 : 70.0,
                        .right = form == Form::narrow ? 12.0 : 22.0};
  const PanelSize size = curve_panel_size(panels.size(), margins, form);
  const Layout layout = arrange(panels.size(), size, margins, legend, titled, form);
  Canvas canvas(layout.width, layout.height);
  draw_legend(canvas, layout, legend);
  Axes axes = common_axes(data);
  for (std::size_t i = 0; i < panels.size(); ++i)
    draw_panel(canvas, data, axes, layout.panels[i], panels[i], layout.begins_row(i));
  return canvas;
}

}  // namespace headlens::report

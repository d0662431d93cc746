#include "report/draw/comparison_figure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/draw/layout.hpp"
#include "report/draw/style_book.hpp"
#include "report/escape.hpp"
#include "report/vocabulary.hpp"

namespace headlens::report {
namespace {

constexpr double kWidth = 340, kHeight = 236;
constexpr double kFarthest =
    30;  // intervals of few seeds reach anywhere: beyond this share of a factor they are cut
constexpr Box kBox{46, 34, kWidth - 48, kHeight - 50};

bool is_measured(const ComparedPoint& point) {
  return point.seeds > 0 && std::isfinite(std::log(point.factor));
}

// Where a point stands along x: by its value, or in order where x has words or infinity among its values.
struct Across {
  Scale scale{{}, 0};
  bool by_value = true;
  double step = 0;

  explicit Across(const Comparison& comparison) {
    std::vector<double> values;
    for (const ComparedPoint& point : comparison.points) values.push_back(point.x);
    by_value = std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x) && x > 0; });
    if (by_value) scale = Scale(values, 0.08);
    scale.set_pixels(kBox.left, kBox.right);
    step = (kBox.right - kBox.left) / static_cast<double>(std::max<std::size_t>(values.size(), 1));
  }
  double operator()(const Comparison& c, std::size_t i) const {
    return by_value ? scale(c.points[i].x) : kBox.left + (static_cast<double>(i) + 0.5) * step;
  }
};

Scale up(const Comparison& comparison) {
  std::vector<double> values{1};
  for (const ComparedPoint& point : comparison.points) {
    if (!is_measured(point)) continue;
    values.push_back(point.factor);
    if (point.seeds < 2) continue;
    values.push_back(std::max(point.lower, point.factor / kFarthest));
    values.push_back(std::min(point.upper, point.factor * kFarthest));
  }
  Scale scale(values, 0.08);
  scale.set_pixels(kBox.bottom, kBox.top);
  return scale;
}

// In favour: the colour of the side that the claim calls better; against: of the other one.
std::string colour_of(const Comparison& c, Judgement judgement) {
  const bool named =
      !c.better_identity.empty() && !c.worse_identity.empty() && c.better_identity != c.worse_identity;
  if (judgement == Judgement::in_favour)
    return named ? style_of(c.better_identity).colour : plain_style(0).colour;
  if (judgement == Judgement::against)
    return named ? style_of(c.worse_identity).colour : plain_style(1).colour;
  return colour::kSoft;
}

void draw_range(Canvas& canvas, const Comparison& c, const Across& across) {
  const auto inside = [](const ComparedPoint& p) { return p.in_range; };
  const auto first = std::find_if(c.points.begin(), c.points.end(), inside);
  if (first == c.points.end() || std::all_of(c.points.begin(), c.points.end(), inside)) return;
  const auto last = std::find_if_not(first, c.points.end(), inside) - 1;
  const double left = std::max(kBox.left, across(c, static_cast<std::size_t>(first - c.points.begin())) - 14);
  const double right =
      std::min(kBox.right, across(c, static_cast<std::size_t>(last - c.points.begin())) + 14);
  canvas.area({{left, kBox.top}, {right, kBox.top}, {right, kBox.bottom}, {left, kBox.bottom}}, colour::kSoft,
              0.1);
}

void draw_labels(Canvas& canvas, const Comparison& c, const Across& across) {
  double edge = -INFINITY;
  for (std::size_t i = 0; i < c.points.size(); ++i) {
    const std::string words = cut(text(c.points[i].x_value), 12);
    const double half = text_width(words, 11) / 2, at = across(c, i);
    if (at - half < edge + 4) continue;
    edge = at + half;
    canvas.text({at, kBox.bottom + 15}, words,
                {.size = 11, .anchor = Anchor::centre, .colour = colour::kSoft});
  }
  canvas.line({{kBox.left, kBox.bottom}, {kBox.right, kBox.bottom}}, colour::kAxis, 1.2);
  canvas.text({kBox.middle_x(), kBox.bottom + 36}, term(c.x),
              {.size = 12, .anchor = Anchor::centre, .colour = colour::kSoft});
}

void draw_point(Canvas& canvas, const Comparison& c, const ComparedPoint& point, double x, const Scale& y) {
  const std::string colour = colour_of(c, point.judgement);
  if (point.seeds > 1)
    canvas.line({{x, y(std::max(point.lower, y.low()))}, {x, y(std::min(point.upper, y.high()))}}, colour, 2);
  canvas.markers({{x, y(point.factor)}}, colour::kBack, 7, 1.35);
  canvas.markers({{x, y(point.factor)}}, colour, point.in_range ? 7 : 6, 1);
}

}  // namespace

bool can_draw(const Comparison& comparison) {
  return std::any_of(comparison.points.begin(), comparison.points.end(), is_measured);
}

Canvas draw_comparison(const Comparison& c) {
  Canvas canvas(kWidth, kHeight);
  const Across across(c);
  const Scale y = up(c);
  const auto fits = static_cast<std::size_t>((kWidth - 10) / (0.66 * 12.5));
  canvas.text({10, 14}, cut(fmt::format("{}: {} ÷ {}", term(c.quantity), c.worse, c.better), fits),
              {.size = 12.5, .bold = true});
  draw_range(canvas, c, across);
  draw_y_axis(canvas, kBox, y, "", true);
  draw_labels(canvas, c, across);
  canvas.line({{kBox.left, y(1)}, {kBox.right, y(1)}}, colour::kSoft, 1.2, "(2,4)");
  canvas.text({kBox.right + 6, y(1)}, "equal", {.size = 11, .colour = colour::kSoft});
  for (std::size_t i = 0; i < c.points.size(); ++i)
    if (is_measured(c.points[i])) draw_point(canvas, c, c.points[i], across(c, i), y);
  return canvas;
}

}  // namespace headlens::report

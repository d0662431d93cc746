#include "report/tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "report/escape.hpp"
#include "report/vocabulary.hpp"

namespace headlens::report {
namespace {

std::vector<const Point*> points_of_columns(const Summary& summary) {
  std::vector<const Point*> columns;
  for (const Curve& curve : summary.curves)
    for (const Point& point : curve.points) {
      const bool known = std::any_of(columns.begin(), columns.end(),
                                     [&](const Point* p) { return same(p->x_value, point.x_value); });
      if (!known) columns.push_back(&point);
    }
  std::stable_sort(columns.begin(), columns.end(),
                   [](const Point* a, const Point* b) { return comes_first(a->x, b->x); });
  return columns;
}

// In a box that scrolls by itself, also by keyboard: a wide table must not make the page scroll sideways.
std::string table(const std::string& caption, const std::string& head, const std::string& body) {
  return fmt::format(
      "<p class=\"about\">{0}</p>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
      "aria-label=\"{0}\"><table>\n"
      "<thead><tr>{1}</tr></thead>\n<tbody>\n{2}</tbody></table></div>\n",
      html(caption), head, body);
}

std::string words(const std::string& text) { return "<th scope=\"row\">" + html(text) + "</th>"; }
std::string value(const std::string& text) { return "<td>" + text + "</td>"; }
std::string head(const std::string& text) { return "<th scope=\"col\">" + html(text) + "</th>"; }

// The panel is named on the first of its rows only.
struct PanelNames {
  bool shown = true;
  std::string last;
  bool begun = false;

  explicit PanelNames(const Summary& summary)
      : shown(summary.panels.size() > 1 || (summary.panels.size() == 1 && !summary.panels.front().empty())) {}
  std::string row(const std::string& panel) {
    const bool first = !begun || panel != last;
    last = panel;
    begun = true;
    const char* const open = first ? "<tr class=\"first\">" : "<tr>";
    return shown ? open + words(first ? panel : "") : open;
  }
};

std::string entry(const Point& point, const Summary& summary) {
  if (point.values.empty()) return point.failed > 0 ? "failed" : "–";
  if (summary.truth) return fmt::format("{:.0f}%", 100 * point.mean);
  std::string text = html(number(point.median));
  if (point.values.size() > 1)
    text += fmt::format("<small>{} – {}</small>", html(number(point.lower)), html(number(point.upper)));
  return text;
}

std::string theory_entry(const TheoryAt* at) {
  if (at == nullptr) return "–";
  return fmt::format("{}<small>{}</small><small>{}</small>", at->seeds == 0 ? "–" : html(number(at->ratio)),
                     html(number(at->predicted)), html(number(at->bound)));
}

// A row a curve, a column an x.
template <class Entry>
std::string curve_table(const FigureData& data, const std::string& caption, const std::string& series,
                        const Entry& entry_of) {
  const std::vector<const Point*> columns = points_of_columns(data.summary);
  PanelNames panels(data.summary);
  std::string top = (panels.shown ? head(term(data.spec.panel)) : "") + head(term(series));
  for (const Point* column : columns) top += head(text(column->x_value));
  std::string body;
  for (const Curve& curve : data.summary.curves) {
    body += panels.row(curve.panel) + words(curve.series);
    for (const Point* column : columns) {
      const auto point = std::find_if(curve.points.begin(), curve.points.end(),
                                      [&](const Point& p) { return same(p.x_value, column->x_value); });
      body += value(point == curve.points.end() ? "" : entry_of(curve, *point));
    }
    body += "</tr>\n";
  }
  return table(caption, top, body);
}

std::string slope_entry(const std::optional<Slope>& slope) {
  if (!slope) return value("–");
  return value(fmt::format("{}<small>{} – {}</small>", html(number(slope->value)), html(number(slope->lower)),
                           html(number(slope->upper))));
}

const Point* point_at(const Curve& curve, const Point& column) {
  const auto found = std::find_if(curve.points.begin(), curve.points.end(),
                                  [&](const Point& p) { return same(p.x_value, column.x_value); });
  return found == curve.points.end() ? nullptr : &*found;
}

std::string growth_entry(const FigureData& data, const Curve& curve, const Point* point) {
  if (point == nullptr || point->values.empty()) return value("–");
  const auto share = data.growth.share_at(curve, *point);
  return value(html(number(point->median)) +
               (share ? fmt::format("<small>{:.0f}%</small>", 100 * *share) : ""));
}

// What stands beside the curves of a panel, if it is the same for all of them.
std::string beside_row(const FigureData& data, const Curve& curve, const std::vector<const Point*>& columns) {
  std::string row;
  bool any = false;
  for (const Point* column : columns) {
    const Point* point = point_at(curve, *column);
    const auto beside = point == nullptr ? std::nullopt : data.growth.beside_at(curve, *point);
    any = any || beside.has_value();
    row += value(beside ? html(number(*beside, 4)) : "–");
  }
  return any ? row : "";
}

}  // namespace

std::string growth_table(const FigureData& data) {
  const std::vector<const Point*> columns = points_of_columns(data.summary);
  PanelNames panels(data.summary);
  const bool measured = !data.spec.beside.empty();
  std::string top = (panels.shown ? head(term(data.spec.panel)) : "") + head(term(data.spec.series)) +
                    head("growth for one more unit of " + term(data.spec.x));
  if (measured) top += head("power of " + term(data.spec.beside));
  for (const Point* column : columns) top += head(text(column->x_value));
  std::string body, panel = "\n";  // the name of no panel
  for (const Curve& curve : data.summary.curves) {
    if (const std::string beside = beside_row(data, curve, columns); curve.panel != panel && !beside.empty())
      body += panels.row(curve.panel) + words(term(data.spec.beside)) + value("") + value("") + beside +
              "</tr>\n";
    panel = curve.panel;
    const GrowthCurve& growth = *data.growth.find(curve);
    body += panels.row(curve.panel) + words(curve.series) + slope_entry(growth.factor);
    if (measured) body += slope_entry(growth.power);
    for (const Point* column : columns) body += growth_entry(data, curve, point_at(curve, *column));
    body += "</tr>\n";
  }
  return table(
      fmt::format("Fitted growth with 95% intervals, then medians of the {} for the {} tried{}.",
                  term(data.quantity), values_of(data.spec.x),
                  data.spec.success.empty() ? "" : "; below a median, the share of seeds that succeed"),
      top, body);
}

std::string number_table(const FigureData& data) {
  const bool phase = data.spec.kind == FigureKind::phase_diagram;
  const std::string what =
      data.summary.truth
          ? fmt::format("Share of seeds for which {}", success_of(data.quantity))
          : fmt::format("Median {}, and the 10% and 90% quantile below it", term(data.quantity));
  return curve_table(data, fmt::format("{}, for the {} tried.", what, values_of(data.spec.x)),
                     phase ? data.spec.y : data.spec.series,
                     [&](const Curve&, const Point& point) { return entry(point, data.summary); });
}

std::string theory_table(const FigureData& data) {
  return curve_table(
      data,
      fmt::format("Mean {} over seeds divided by the predicted error, for the {} tried; below it the "
                  "predicted error and the bound on the excess risk.",
                  term(data.quantity), values_of(data.spec.x)),
      data.spec.series,
      [&](const Curve& curve, const Point& point) { return theory_entry(data.theory.find(curve, point)); });
}

std::string sample_size_table(const FigureData& data) {
  PanelNames panels(data.summary);
  std::string top = (panels.shown ? head(term(data.spec.panel)) : "") + head(term(data.spec.series));
  for (const double error : kErrors) top += head(fmt::format("{} {}", term(data.quantity), number(error)));
  std::string body;
  for (const SampleSizeRow& row : data.sizes) {
    body += panels.row(row.panel) + words(row.series);
    for (const auto& size : row.sizes) {
      if (!size) {
        body += value("–");
        continue;
      }
      const bool reached = size->estimate.reach != Reach::not_reached;
      body += fmt::format(
          "<td{}>{}", reached ? "" : " class=\"soft\"",
          reached ? html(text(size->estimate)) : html("not reached by " + number(size->estimate.n)));
      if (size->interval && size->interval->first != size->interval->second)
        body += fmt::format("<small>{} to {}</small>", html(text(size->interval->first)),
                            html(text(size->interval->second)));
      body += "</td>";
    }
    body += "</tr>\n";
  }
  return table(fmt::format("Number of {} needed for each {}, and the 95% interval below it.",
                           term(data.spec.x), term(data.quantity)),
               top, body);
}

std::string comparison_table(const Comparison& comparison) {
  static constexpr const char* kJudgements[] = {"in favour", "against", "undecided", "too few pairs"};
  const std::string top = head(term(comparison.x)) +
                          head(fmt::format("{} ÷ {}", comparison.worse, comparison.better)) +
                          head("95% interval") + head("seeds in favour") + head("verdict");
  std::string body;
  for (const ComparedPoint& point : comparison.points) {
    const bool interval = point.seeds > 1;
    body += (point.in_range ? "<tr>" : "<tr class=\"soft\">") + words(text(point.x_value)) +
            value(point.seeds > 0 ? number(point.factor) : "–") +
            value(interval ? number(point.lower) + " – " + number(point.upper) : "–") +
            value(fmt::format("{} of {}", point.wins, point.seeds)) +
            value(std::string(kJudgements[static_cast<int>(point.judgement)]) +
                  (point.in_range ? "" : ", outside the claim")) +
            "</tr>\n";
  }
  return table(fmt::format("The {} of {} divided by that of {}.", term(comparison.quantity), comparison.worse,
                           comparison.better),
               top, body);
}

}  // namespace headlens::report

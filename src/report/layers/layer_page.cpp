#include "report/layers/layer_page.hpp"

#include <fmt/format.h>

#include <fstream>
#include <iterator>

#include "headlens/arrays.hpp"
#include "headlens/info.hpp"
#include "headlens/layer_report.hpp"
#include "report/draw/gnuplot.hpp"
#include "report/draw/theme.hpp"
#include "report/escape.hpp"
#include "report/folder.hpp"
#include "report/page_style.hpp"

namespace headlens::report {
namespace {

namespace fs = std::filesystem;

const char* class_of(Mood mood) {
  switch (mood) {
    case Mood::good:
      return "holds";
    case Mood::middling:
      return "holds-in-part";
    case Mood::bad:
      return "does-not-hold";
    case Mood::open:
      return "undecided";
  }
  return "";
}

std::string read(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> file_names(const LayerPage& page) {
  std::vector<std::string> names{"index.html"};
  for (const LayerFigure& figure : page.figures)
    for (const char* kind : {"svg", "pdf", "png", "csv"})
      names.push_back(fmt::format("figures/{}.{}", figure.name, kind));
  return names;
}

// The files of a figure, and its part of the page.
std::string render(const LayerFigure& figure, const fs::path& folder, const Execution& execution) {
  const std::string narrow = figure.name + "-narrow";
  write_text(folder / (figure.name + ".csv"), figure.csv);
  run_gnuplot(figure.wide.script(figure.name) + figure.narrow.svg_script(narrow), folder, execution);
  const fs::path path = folder / (figure.name + ".svg");
  const std::string svg = themed(read(path), figure.name, figure.title),
                    small = themed(read(folder / (narrow + ".svg")), narrow, figure.title);
  write_text(path, svg);
  fs::remove(folder / (narrow + ".svg"));
  std::string files;
  for (const char* kind : {"svg", "pdf", "png", "csv"})
    files += fmt::format("<a href=\"figures/{0}.{1}\">{2}</a>", figure.name, kind,
                         std::string_view(kind) == "csv" ? "numbers as CSV" : kind);
  return fmt::format(
      "<figure id=\"{}\">\n<h4>{}</h4>\n<div class=\"drawing wide\">\n{}</div>\n"
      "<div class=\"drawing narrow\">\n{}</div>\n<figcaption>\n<p>{}</p>\n<p class=\"files\">{}</p>\n"
      "</figcaption>\n</figure>\n",
      figure.name, html(figure.title), svg, small, html(figure.caption), files);
}

std::string table_of(const std::vector<std::vector<std::string>>& table) {
  if (table.empty()) return "";
  std::string text = "<div class=\"scroll\"><table>\n<thead><tr>";
  for (const std::string& cell : table.front()) text += "<th>" + html(cell) + "</th>";
  text += "</tr></thead>\n<tbody>\n";
  for (std::size_t i = 1; i < table.size(); ++i) {
    text += "<tr><th>" + html(table[i].front()) + "</th>";
    for (std::size_t j = 1; j < table[i].size(); ++j) text += "<td>" + html(table[i][j]) + "</td>";
    text += "</tr>\n";
  }
  return text + "</tbody></table></div>\n";
}

std::string body_of(const LayerPage& page) {
  std::string text = fmt::format("<header>\n<h1>{}</h1>\n<p><span class=\"chip {}\">{}</span></p>\n",
                                 html(page.title), class_of(page.mood), html(page.status));
  for (const std::string& words : page.words) text += "<p class=\"lead\">" + html(words) + "</p>\n";
  text += "</header>\n<main>\n<section class=\"only\">\n<dl>\n";
  for (const auto& [name, value] : page.facts)
    text += fmt::format("<dt>{}</dt><dd>{}</dd>\n", html(name), html(value));
  return text + "</dl>\n" + table_of(page.table);
}

}  // namespace

fs::path write_page(const LayerPage& page, const fs::path& folder, const Execution& execution) {
  ReportFolder out(folder, file_names(page));
  std::string text = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"generator\" content=\"headlens {}\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n{}",
      version(), html(page.title), kPageStyle, body_of(page));
  text += "<h3>Figures</h3>\n";
  for (const LayerFigure& figure : page.figures) {
    execution.check_cancelled();
    text += render(figure, out.staging() / "figures", execution);
  }
  text += fmt::format(
      "<details><summary>The report as text</summary>\n<pre>{}</pre></details>\n</section>\n</main>\n"
      "<footer>Written by headlens {} (commit {}).</footer>\n</body>\n</html>\n",
      html(page.details), version(), commit());
  write_text(out.staging() / "index.html", text);
  out.publish();
  return folder / "index.html";
}

LayerFigure figure_of(const std::string& name, const std::string& title, const std::string& caption,
                      const Chart& chart) {
  return {name, title, caption, draw(chart, Form::wide), draw(chart, Form::narrow), csv(chart)};
}

LayerFigure figure_of(const std::string& name, const std::string& title, const std::string& caption,
                      const Grids& grids) {
  return {name, title, caption, draw(grids, Form::wide), draw(grids, Form::narrow), csv(grids)};
}

}  // namespace headlens::report

namespace headlens {

void check_report_folder(const std::filesystem::path& folder) {
  const report::ReportFolder tried(folder, {"index.html"});
}

}  // namespace headlens

// results -> figures and findings -> page, in a folder that appears whole.
#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <set>

#include "headlens/arrays.hpp"
#include "headlens/error.hpp"
#include "headlens/report.hpp"
#include "report/draw/comparison_figure.hpp"
#include "report/draw/default_figure.hpp"
#include "report/draw/gnuplot.hpp"
#include "report/draw/style_book.hpp"
#include "report/draw/theme.hpp"
#include "report/escape.hpp"
#include "report/folder.hpp"
#include "report/page.hpp"
#include "report/tables.hpp"

namespace headlens {
namespace {

namespace fs = std::filesystem;
using namespace report;

const char* kind_name(FigureKind kind) {
  switch (kind) {
    case FigureKind::learning_curves:
      return "learning-curves";
    case FigureKind::head_curves:
      return "head-curves";
    case FigureKind::phase_diagram:
      return "phase-diagram";
    case FigureKind::sample_table:
      return "sample-sizes";
    case FigureKind::growth:
      return "growth";
  }
  return "";
}

// Two stores may hold studies of one name.
std::string unique_id(const std::string& name, std::set<std::string>& used) {
  const std::string base = slug(name);
  std::string id = base;
  for (int i = 2; !used.insert(id).second; ++i) id = fmt::format("{}-{}", base, i);
  return id;
}

PageFigure prepare_figure(const StudyResults& results, const FigureSpec& spec, const std::string& name) {
  return {name, figure_data(results, spec), "", ""};
}

PageFinding prepare_finding(const StudyResults& results, const FindingSpec& spec) {
  const Comparison comparison = compare(results, spec);
  FindingResult result = judge(comparison, spec);
  result.study = results.study.name;
  return {spec, comparison, result, ""};
}

std::vector<PageStudy> prepare(const std::vector<StudyResults>& all) {
  std::vector<PageStudy> studies;
  std::set<std::string> used;
  StyleBook book;
  for (const StudyResults& results : all) {
    const Study& plan = results.study;
    PageStudy& study = studies.emplace_back(PageStudy{&results, unique_id(plan.name, used), {}, {}});
    const std::vector<FigureSpec> specs =
        plan.figures.empty() ? std::vector{default_figure(plan)} : plan.figures;
    for (std::size_t i = 0; i < specs.size(); ++i)
      study.figures.push_back(prepare_figure(
          results, specs[i], fmt::format("{}-{}-{}", study.id, i + 1, kind_name(specs[i].kind))));
    for (PageFigure& figure : study.figures)
      if (figure.data.spec.kind != FigureKind::phase_diagram)
        figure.data.styles = book.styles(figure.data.summary);
    for (const FindingSpec& spec : plan.findings) study.findings.push_back(prepare_finding(results, spec));
  }
  return studies;
}

// Every file that the report may write.
std::vector<std::string> file_names(const std::vector<PageStudy>& studies) {
  std::vector<std::string> names{"index.html"};
  for (const PageStudy& study : studies)
    for (const PageFigure& figure : study.figures)
      for (const char* kind : {"svg", "pdf", "png", "csv"})
        names.push_back(fmt::format("figures/{}.{}", figure.name, kind));
  return names;
}

std::string read(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void render(PageFigure& figure, const fs::path& folder, const Execution& execution) {
  write_text(folder / (figure.name + ".csv"), csv(figure.data));
  if (!can_draw(figure.data)) return;
  const std::string narrow = figure.name + "-narrow";
  run_gnuplot(
      draw(figure.data, Form::wide).script(figure.name) + draw(figure.data, Form::narrow).svg_script(narrow),
      folder, execution);
  const fs::path path = folder / (figure.name + ".svg");
  figure.svg = themed(read(path), figure.name, figure.data.spec.title);
  figure.narrow_svg = themed(read(folder / (narrow + ".svg")), narrow, figure.data.spec.title);
  write_text(path, figure.svg);
}

void render(PageFinding& finding, const std::string& name, const fs::path& folder,
            const Execution& execution) {
  if (!can_draw(finding.comparison)) return;
  run_gnuplot(draw_comparison(finding.comparison).svg_script(name), folder, execution);
  finding.svg = themed(read(folder / (name + ".svg")), name, finding.spec.text);
}

void render(std::vector<PageStudy>& studies, const fs::path& folder, const Execution& execution) {
  std::size_t total = 0, drawn = 0;
  for (const PageStudy& study : studies) total += study.figures.size() + study.findings.size();
  const auto step = [&] {
    execution.check_cancelled();
    execution.report("figures", static_cast<double>(drawn++), static_cast<double>(total));
  };
  for (PageStudy& study : studies) {
    for (PageFigure& figure : study.figures) step(), render(figure, folder, execution);
    for (std::size_t i = 0; i < study.findings.size(); ++i)
      step(), render(study.findings[i], fmt::format("{}-comparison-{}", study.id, i + 1), folder, execution);
  }
}

Report describe(const std::vector<PageStudy>& studies, const fs::path& folder) {
  Report report{.page = folder / "index.html"};
  for (const PageStudy& study : studies) {
    for (const PageFigure& figure : study.figures)
      if (!figure.svg.empty())
        report.figures.push_back({study.results->study.name, figure.name, figure.data.spec.title});
    for (const PageFinding& finding : study.findings) report.findings.push_back(finding.result);
    const CellCounts cells = count_cells(*study.results);
    report.cells += cells.total;
    report.failed += cells.failed;
    report.missing += cells.missing;
  }
  return report;
}

}  // namespace

Report write_report(const std::vector<StudyResults>& results, const fs::path& folder,
                    const Execution& execution, const std::string& title) {
  require(!results.empty(), "nothing to report: the store holds no study");
  std::vector<PageStudy> studies = prepare(results);
  ReportFolder out(folder, file_names(studies));
  render(studies, out.staging() / "figures", execution);
  write_text(out.staging() / "index.html", page(studies, title));
  out.publish();
  return describe(studies, folder);
}

}  // namespace headlens

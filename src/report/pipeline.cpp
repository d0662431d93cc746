// results -> figures and findings -> page, in a folder that appears whole.
#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <set>

#include "headlens/arrays.hpp"
#include "headlens/error.hpp"
#include "headlens/report.hpp"
#include "report/escape.hpp"
#include "report/folder.hpp"
#include "report/gnuplot.hpp"
#include "report/page.hpp"
#include "report/tables.hpp"
#include "report/theme.hpp"

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

PageFigure prepare_figure(const StudyResults& results, const std::string& study_id, std::size_t index) {
  const FigureSpec& spec = results.study.figures[index];
  return {fmt::format("{}-{}-{}", study_id, index + 1, kind_name(spec.kind)), figure_data(results, spec), ""};
}

PageFinding prepare_finding(const StudyResults& results, const FindingSpec& spec) {
  const Comparison comparison = compare(results, spec);
  FindingResult result = judge(comparison, spec);
  result.study = results.study.name;
  return {spec, comparison, result};
}

std::vector<PageStudy> prepare(const std::vector<StudyResults>& all) {
  std::vector<PageStudy> studies;
  std::set<std::string> used;
  StyleBook book;
  for (const StudyResults& results : all) {
    PageStudy& study = studies.emplace_back(PageStudy{&results, unique_id(results.study.name, used), {}, {}});
    for (std::size_t i = 0; i < results.study.figures.size(); ++i)
      study.figures.push_back(prepare_figure(results, study.id, i));
    for (PageFigure& figure : study.figures)
      if (is_curves(figure.data.spec.kind)) figure.data.styles = book.styles(figure.data.summary.series);
    for (const FindingSpec& spec : results.study.findings)
      study.findings.push_back(prepare_finding(results, spec));
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

void render(PageFigure& figure, const fs::path& folder, const Execution& execution) {
  write_text(folder / (figure.name + ".csv"), csv(figure.data));
  if (!can_draw(figure.data)) return;
  run_gnuplot(draw(figure.data).script(figure.name), folder, execution);
  const fs::path path = folder / (figure.name + ".svg");
  std::ifstream file(path);
  const std::string drawn{std::istreambuf_iterator<char>(file), {}};
  figure.svg = themed(drawn, figure.name, figure.data.spec.title);
  write_text(path, figure.svg);
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
                    const Execution& execution) {
  require(!results.empty(), "nothing to report: the store holds no study");
  std::vector<PageStudy> studies = prepare(results);
  ReportFolder out(folder, file_names(studies));
  std::size_t total = 0, drawn = 0;
  for (const PageStudy& study : studies) total += study.figures.size();
  for (PageStudy& study : studies)
    for (PageFigure& figure : study.figures) {
      execution.check_cancelled();
      execution.report("figures", static_cast<double>(drawn++), static_cast<double>(total));
      render(figure, out.staging() / "figures", execution);
    }
  write_text(out.staging() / "index.html", page(studies));
  out.publish();
  return describe(studies, folder);
}

}  // namespace headlens

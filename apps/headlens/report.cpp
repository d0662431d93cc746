// headlens report RESULTS.db ... -o DIR: a page, figures and tables from the cells of studies.
#include "headlens/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "command.hpp"
#include "headlens/error.hpp"

namespace headlens::app {
namespace {

struct ReportArguments {
  CommonOptions common;
  std::vector<std::string> stores;
  std::string folder, title;
};

std::vector<StudyResults> read_all(const std::vector<std::string>& stores) {
  std::vector<StudyResults> all;
  for (const std::string& store : stores) {
    std::vector<StudyResults> some = read_results(store);
    require(!some.empty(), store, ": holds no study (expected one that 'headlens study run' has begun)");
    for (StudyResults& results : some) all.push_back(std::move(results));
  }
  return all;
}

Json as_json(const Report& report) {
  Json figures = Json::array(), findings = Json::array();
  for (const ReportFigure& figure : report.figures)
    figures.push_back({{"study", figure.study}, {"name", figure.name}, {"title", figure.title}});
  for (const FindingResult& finding : report.findings)
    findings.push_back({{"study", finding.study},
                        {"text", finding.text},
                        {"status", name(finding.status)},
                        {"holds", finding.status == FindingStatus::holds},
                        {"verdict", finding.verdict}});
  return {{"page", report.page.string()}, {"figures", figures},      {"findings", findings},
          {"cells", report.cells},        {"failed", report.failed}, {"missing", report.missing}};
}

std::string as_text(const Report& report) {
  std::string text = fmt::format("{}: {} figures, {} findings from {} cells", report.page.string(),
                                 report.figures.size(), report.findings.size(), report.cells);
  if (report.failed > 0) text += fmt::format(", {} failed", report.failed);
  if (report.missing > 0) text += fmt::format(", {} missing", report.missing);
  for (const FindingResult& finding : report.findings)
    text += fmt::format("\n  {}: {}\n    {}", finding.study, finding.text, finding.verdict);
  return text;
}

bool lies_in(const std::string& file, const std::string& folder) {
  namespace fs = std::filesystem;
  const fs::path inner = fs::weakly_canonical(file), outer = fs::weakly_canonical(folder);
  return inner != outer &&
         std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

int run(const ReportArguments& a) {
  for (const std::string& store : a.stores)
    require(!lies_in(store, a.folder), "-o: ", store, " lies in ", a.folder,
            ", which holds nothing but the report: give another folder");
  const Report report = write_report(read_all(a.stores), a.folder, a.common.execution(), a.title);
  print(a.common, as_json(report), as_text(report));
  return kOk;
}

}  // namespace

void add_report(Command& app) {
  auto a = std::make_shared<ReportArguments>();
  Command& command = app.add_command("report", "Write a page with figures and findings from studies");
  command.add_positionals("RESULTS", a->stores, "stores that 'headlens study run' wrote (.db), one or more",
                          Needed::yes);
  command.add_text("-o,--output", a->folder, "DIR",
                   "folder to write: new, empty or an earlier report, whose files are replaced", Needed::yes);
  command.add_text("--title", a->title, "TEXT", "title of the page (default: that of the study)");
  add_common_options(command, a->common);
  command.set_footer(
      "Writes DIR/index.html, which needs no other file and no network, and DIR/figures with each figure as\n"
      "SVG, PDF and PNG and the numbers behind it as CSV. Unfinished studies are reported as far as they "
      "are.\n"
      "Files in DIR that no report wrote, or that were changed since, stay as they are.\n"
      "A finding that does not hold is no error: the exit status tells only whether the report was written.\n"
      "Figures are drawn by gnuplot.\n\n"
      "Examples:\n"
      "  headlens report results.db -o report\n"
      "  headlens report separation.db bias.db -o report --title 'Two studies' --json");
  command.set_action([a] { return run(*a); });
}

}  // namespace headlens::app

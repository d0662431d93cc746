// Studies and reports.
#include "headlens/study.hpp"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "call.hpp"
#include "headlens/report.hpp"

namespace headlens::python {
namespace {

using Path = std::filesystem::path;

nb::dict run(const Study& study, const Path& store, const RunOptions& options, const Settings& settings) {
  const RunSummary summary =
      call(settings, [&](const Execution& e) { return run_study(study, store, options, e); });
  nb::dict out;
  out["cells"] = summary.total;
  out["already_done"] = summary.already_done;
  out["ran"] = summary.ran;
  out["failed"] = summary.failed;
  out["elsewhere"] = summary.elsewhere;
  out["seconds"] = summary.seconds;
  return out;
}

nb::dict tally(const Study& study, const Path& store) {
  Index counts[4] = {0, 0, 0, 0};
  for (const StudyCell& cell : read_results(store, study).cells) ++counts[static_cast<int>(cell.status)];
  nb::dict out;
  for (const CellStatus status :
       {CellStatus::done, CellStatus::failed, CellStatus::running, CellStatus::missing})
    out[nb::str(name(status).c_str())] = counts[static_cast<int>(status)];
  return out;
}

std::string table(const Study& study, const Path& store, const std::string& format) {
  return export_results(read_results(store, study), format == "csv" ? ExportFormat::csv : ExportFormat::json);
}

nb::dict report(const Study& study, const Path& store, const Path& folder, const Settings& settings) {
  const Report made = call(
      settings, [&](const Execution& e) { return write_report({read_results(store, study)}, folder, e); });
  nb::list figures, findings;
  for (const ReportFigure& figure : made.figures) figures.append(figure.name);
  for (const FindingResult& finding : made.findings) {
    nb::dict entry;
    entry["text"] = finding.text;
    entry["status"] = name(finding.status);
    entry["holds"] = finding.status == FindingStatus::holds;
    entry["verdict"] = finding.verdict;
    findings.append(entry);
  }
  nb::dict out;
  out["page"] = made.page;
  out["figures"] = figures;
  out["findings"] = findings;
  out["cells"] = made.cells;
  out["failed"] = made.failed;
  out["missing"] = made.missing;
  return out;
}

nb::dict merge(const std::vector<Path>& stores, const Path& merged, const std::string& command_line) {
  const MergeSummary summary = merge_studies(stores, merged, command_line);
  nb::dict out;
  out["cells"] = summary.cells;
  out["added"] = summary.added;
  out["failed"] = summary.failed;
  return out;
}

}  // namespace

void bind_study(nb::module_& m) {
  nb::class_<Study>(m, "Study")
      .def_ro("name", &Study::name)
      .def_ro("title", &Study::title)
      .def_ro("question", &Study::question)
      .def_ro("source", &Study::source)
      .def("run", &run, nb::arg("store"), nb::arg("options"), nb::arg("settings"))
      .def("tally", &tally, nb::arg("store"))
      .def("table", &table, nb::arg("store"), nb::arg("format"))
      .def("report", &report, nb::arg("store"), nb::arg("folder"), nb::arg("settings"));
  m.def("merge_studies", &merge, nb::arg("stores"), nb::arg("merged"), nb::arg("command_line"));
  m.def("read_study", &read_study, nb::arg("path"), nb::arg("overrides"));
}

}  // namespace headlens::python

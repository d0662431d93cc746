// What made the numbers: the command, the versions and machines, and the study file word for word.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "report/escape.hpp"
#include "report/page.hpp"

namespace headlens::report {
namespace {

constexpr std::size_t kShownFailures = 20;

std::string row(const std::string& term, const std::string& text) {
  return text.empty() ? "" : fmt::format("<dt>{}</dt><dd>{}</dd>\n", term, html(text));
}

std::string joined(const std::set<std::string>& items) {
  std::string text;
  for (const std::string& item : items)
    if (!item.empty()) text += (text.empty() ? "" : ", ") + item;
  return text;
}

std::string duration(double seconds) {
  if (seconds < 120) return number(seconds, 3) + " s";
  if (seconds < 7200) return number(seconds / 60, 3) + " min";
  return number(seconds / 3600, 3) + " h";
}

std::string failures(const StudyResults& results) {
  std::string text;
  std::size_t count = 0;
  for (const StudyCell& cell : results.cells) {
    if (cell.status != CellStatus::failed || ++count > kShownFailures) continue;
    std::string inputs;
    for (const auto& [name, value] : cell.axes) inputs += name + " = " + headlens::text(value) + ", ";
    text += fmt::format("{}seed {}: {}\n", inputs, cell.seed, cell.error);
  }
  if (count == 0) return "";
  const std::string more = count > kShownFailures ? fmt::format("and {} more\n", count - kShownFailures) : "";
  return fmt::format("<details><summary>{} failed {}</summary>\n<pre>{}</pre></details>\n", count,
                     count == 1 ? "cell" : "cells", html(text + more));
}

}  // namespace

std::string provenance(const StudyResults& results) {
  std::set<std::string> versions, hosts, cores, finished;
  double seconds = 0;
  std::uint64_t peak = 0;
  for (const StudyCell& cell : results.cells) {
    if (cell.status != CellStatus::done) continue;
    versions.insert(cell.version + (cell.git_commit.empty() ? "" : " (commit " + cell.git_commit + ")"));
    hosts.insert(cell.host);
    cores.insert(cell.blas_core);
    finished.insert(cell.finished);
    seconds += cell.seconds;
    peak = std::max(peak, cell.peak_bytes);
  }
  finished.erase("");
  std::string text;
  if (!results.command_line.empty()) text += fmt::format("<pre>{}</pre>\n", html(results.command_line));
  text += "<dl>\n" + row("headlens", joined(versions)) + row("host", joined(hosts)) +
          row("BLAS core", joined(cores)) + row("time in cells", seconds > 0 ? duration(seconds) : "") +
          row("largest cell",
              peak > 0 ? fmt::format("{:.0f} MB predicted", static_cast<double>(peak) / 1e6) : "");
  if (!finished.empty())
    text += row("finished", *finished.begin() == *finished.rbegin()
                                ? *finished.begin()
                                : *finished.begin() + " to " + *finished.rbegin());
  text += "</dl>\n" + failures(results);
  return text + fmt::format("<details><summary>The study file</summary>\n<pre>{}</pre></details>\n",
                            html(results.study.source));
}

}  // namespace headlens::report

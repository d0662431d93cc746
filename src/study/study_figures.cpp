#include "study/study_figures.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "io/printable.hpp"
#include "study/cell_options.hpp"
#include "study/cell_theory.hpp"
#include "study/grid.hpp"

namespace headlens {
namespace {

using Entry = Section::Entry;

std::vector<Section> tables(const Section& top, std::string_view key) {
  std::vector<Section> found;
  const Entry* entry = top.find(key);
  if (!entry) return found;
  for (const toml::node& node : top.filled_array(*entry)) {
    const toml::table* table = node.as_table();
    if (!table) top.fail(*entry, "expected tables: [[", key, "]]");
    found.push_back(top.table({entry->key, node.source().begin, table}));
  }
  return found;
}

std::vector<std::string> axis_names(const Study& study) {
  std::vector<std::string> names;
  for (const StudyAxis& axis : study.axes) names.push_back(axis.name);
  return names;
}

// The text of `key`, one of `allowed`.
std::string chosen(const Section& section, const char* key, const std::vector<std::string>& allowed,
                   const char* what) {
  std::string found = section.required_word(key);
  if (std::find(allowed.begin(), allowed.end(), found) == allowed.end())
    section.fail(*section.find(key), "'", io::printable_name(found), "' is not ", what,
                 suggestion(found, allowed));
  return found;
}

std::string axis(const Section& section, const char* key, const Study& study) {
  return chosen(section, key, axis_names(study), "an axis of this study");
}

std::string quantity(const Section& section, const char* key, const Study& study) {
  return chosen(section, key, study.record, "recorded by this study");
}

FigureKind figure_kind(const Section& section) {
  static const std::vector<std::string> names{"learning-curves", "head-curves", "phase-diagram",
                                              "sample-table", "growth"};
  const std::string found = chosen(section, "kind", names, "a kind of figure");
  return static_cast<FigureKind>(std::find(names.begin(), names.end(), found) - names.begin());
}

// {model = "RFA", degree = 2}: values that their axes take.
StudyValues picked(const Section& finding, const char* key, const Study& study) {
  StudyValues values;
  const Entry* entry = finding.find(key);
  if (!entry) return values;
  const Section section = finding.table(*entry);
  section.allow_only(axis_names(study));
  for (const Entry& item : section.entries()) {
    const StudyAxis& axis = *std::find_if(study.axes.begin(), study.axes.end(),
                                          [&](const StudyAxis& a) { return a.name == item.key; });
    StudyValue value = section.value(item, *item.node);
    const auto* whole = std::get_if<std::int64_t>(&value);  // 2 picks 2.0
    if (whole && std::holds_alternative<double>(axis.values.front())) value = static_cast<double>(*whole);
    if (std::find(axis.values.begin(), axis.values.end(), value) == axis.values.end())
      section.fail(item, "'", io::printable_name(text(value)), "' is not a value of this axis");
    values.emplace_back(item.key, value);
  }
  return values;
}

StudyValues required_pick(const Section& finding, const char* key, const Study& study) {
  StudyValues values = picked(finding, key, study);
  if (values.empty())
    finding.fail_at(finding.at(), finding.join_path(key), "missing, expected {axis = value}");
  return values;
}

// Theory has to say something about one cell at least; the series it is silent about go without.
bool theory(const Section& section, const FigureSpec& figure, const Study& study) {
  const Entry* entry = section.find("theory");
  if (!entry) return false;
  const StudyValue value = section.value(*entry, *entry->node);
  const auto* wanted = std::get_if<bool>(&value);
  if (!wanted) section.fail(*entry, "expected true or false");
  if (!*wanted) return false;
  const bool heads = figure.kind == FigureKind::head_curves;
  if (figure.kind != FigureKind::learning_curves && !heads)
    section.fail(*entry, "means nothing in this kind of figure");
  const std::string x = heads ? "heads" : "samples";
  if (figure.x != x || figure.y != "nmse")
    section.fail(*entry, "theory predicts nmse against ", x, "; here y is '", figure.y, "' and x is '",
                 figure.x, "'");
  std::string reason;
  bool silent = true;
  for_each_choice(study, [&](const std::vector<std::size_t>& choice) {
    const std::string found =
        why_no_theory(study.command, complete_inputs(study.command, given_inputs(study, choice)));
    if (reason.empty()) reason = found;
    silent = silent && !found.empty();
  });
  if (silent) section.fail(*entry, "theory says nothing about any cell of this study (", reason, ")");
  return true;
}

}  // namespace

void read_figures(const Section& top, Study& study) {
  for (const Section& section : tables(top, "figure")) {
    section.allow_only(
        {"kind", "title", "caption", "x", "y", "panel", "series", "quantity", "theory", "beside", "success"});
    FigureSpec figure;
    figure.kind = figure_kind(section);
    figure.title = section.required_word("title");
    figure.caption = section.word("caption");
    figure.x = axis(section, "x", study);
    const bool diagram = figure.kind == FigureKind::phase_diagram;
    const bool growth = figure.kind == FigureKind::growth;
    const bool curves =
        figure.kind == FigureKind::learning_curves || figure.kind == FigureKind::head_curves || growth;
    const auto refuse = [&](const char* key) {
      if (const Entry* entry = section.find(key))
        section.fail(*entry, "means nothing in this kind of figure");
    };
    if (diagram) figure.y = axis(section, "y", study);
    if (curves) figure.y = quantity(section, "y", study);
    if (!diagram && !curves) refuse("y");
    if (!curves) figure.quantity = quantity(section, "quantity", study);
    if (curves) refuse("quantity");
    if (diagram) refuse("series");
    for (const auto& [key, member] : {std::pair{"beside", &figure.beside}, {"success", &figure.success}}) {
      if (!growth) refuse(key);
      if (section.find(key)) *member = quantity(section, key, study);
    }
    if (section.find("panel")) figure.panel = axis(section, "panel", study);
    if (section.find("series")) figure.series = axis(section, "series", study);
    figure.theory = theory(section, figure, study);
    study.figures.push_back(std::move(figure));
  }
}

void read_findings(const Section& top, Study& study) {
  for (const Section& section : tables(top, "finding")) {
    section.allow_only({"text", "quantity", "x", "better", "worse", "where", "from", "to"});
    FindingSpec finding;
    finding.text = section.required_word("text");
    finding.quantity = quantity(section, "quantity", study);
    finding.x = axis(section, "x", study);
    finding.better = required_pick(section, "better", study);
    finding.worse = required_pick(section, "worse", study);
    finding.where = picked(section, "where", study);
    finding.from = section.number("from");
    finding.to = section.number("to");
    if (finding.to < finding.from) section.fail(*section.find("from"), "is above to");
    study.findings.push_back(std::move(finding));
  }
}

}  // namespace headlens

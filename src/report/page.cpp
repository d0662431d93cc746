#include "report/page.hpp"

#include <fmt/format.h>

#include "headlens/info.hpp"
#include "report/escape.hpp"
#include "report/glossary.hpp"
#include "report/page_style.hpp"
#include "report/tables.hpp"

namespace headlens::report {
namespace {

std::string chip(FindingStatus status) {
  return fmt::format("<span class=\"chip {}\">{}</span>", slug(name(status)), name(status));
}

std::string finding_id(const PageStudy& study, std::size_t index) {
  return fmt::format("{}-finding-{}", study.id, index + 1);
}

std::string findings(const PageStudy& study) {
  if (study.findings.empty()) return "";
  std::string text =
      "<h3>Findings</h3>\n<p class=\"about\">Beside each finding stands the factor that decides it: above 1 "
      "the claim holds, "
      "below 1 the opposite. Bars are 95% intervals; a point is grey where its bar contains 1. If a range is "
      "shaded, the "
      "claim is about that range alone.</p>\n<ol class=\"findings\">\n";
  for (std::size_t i = 0; i < study.findings.size(); ++i) {
    const PageFinding& finding = study.findings[i];
    text += fmt::format(
        "<li id=\"{}\"><div class=\"said\"><p class=\"claim\"><b>{}. {}</b>{}</p>\n<p "
        "class=\"verdict\">{}</p>\n"
        "<details><summary>The comparison in numbers</summary>\n{}</details></div>\n",
        finding_id(study, i), i + 1, html(finding.spec.text), chip(finding.result.status),
        html(finding.result.verdict), comparison_table(finding.comparison));
    if (!finding.svg.empty()) text += "<div class=\"compared\">\n" + finding.svg + "</div>\n";
    text += "</li>\n";
  }
  return text + "</ol>\n";
}

// The findings that this figure is about, so that what does not hold is said below it too.
std::string related_findings(const PageStudy& study, const FigureData& data) {
  std::string text;
  for (std::size_t i = 0; is_curves(data.spec.kind) && i < study.findings.size(); ++i) {
    const PageFinding& finding = study.findings[i];
    if (finding.spec.quantity != data.quantity || finding.spec.x != data.spec.x) continue;
    text += fmt::format("<li>{} <a href=\"#{}\">Finding {}</a>: {}</li>\n", chip(finding.result.status),
                        finding_id(study, i), i + 1, html(finding.spec.text));
  }
  return text.empty() ? "" : "<ul>\n" + text + "</ul>\n";
}

std::string figure(const PageStudy& study, const PageFigure& figure) {
  std::string text =
      fmt::format("<figure id=\"{}\">\n<h4>{}</h4>\n", figure.name, html(figure.data.spec.title));
  if (!figure.svg.empty())
    text += "<div class=\"drawing wide\">\n" + figure.svg + "</div>\n<div class=\"drawing narrow\">\n" +
            figure.narrow_svg + "</div>\n";
  text += fmt::format("<figcaption>\n<p>{}</p>\n{}", html(caption(figure.data)),
                      related_findings(study, figure.data));
  const bool sizes = figure.data.spec.kind == FigureKind::sample_table;
  if (sizes) text += sample_size_table(figure.data);
  if (!figure.data.theory.empty()) text += theory_table(figure.data);
  if (!figure.data.growth.empty()) text += growth_table(figure.data);
  text += "<p class=\"files\">";
  for (const char* kind : {"svg", "pdf", "png", "csv"})
    if (!figure.svg.empty() || std::string_view(kind) == "csv")
      text += fmt::format("<a href=\"figures/{0}.{1}\">{2}</a>", figure.name, kind,
                          std::string_view(kind) == "csv" ? "numbers as CSV" : kind);
  text += "</p>\n";
  if (!sizes)
    text += "<details><summary>The numbers</summary>\n" + number_table(figure.data) + "</details>\n";
  return text + "</figcaption>\n</figure>\n";
}

std::string counts(const StudyResults& results) {
  const CellCounts cells = count_cells(results);
  std::string text =
      fmt::format("{} of {} cells finished, {} {}", cells.done, cells.total, results.study.seeds.size(),
                  results.study.seeds.size() == 1 ? "seed" : "seeds");
  if (cells.failed > 0) text += fmt::format(", {} failed", cells.failed);
  if (cells.missing > 0)
    text += fmt::format(", {} missing: the numbers below are those of a part", cells.missing);
  return text;
}

std::string title_of(const Study& study) { return study.title.empty() ? study.name : study.title; }

// The first figure leads, then what it shows in words, then the others.
std::string section(const PageStudy& study, bool alone) {
  const Study& plan = study.results->study;
  std::string text = fmt::format("<section id=\"{}\"{}>\n", study.id, alone ? " class=\"only\"" : "");
  if (!alone) text += fmt::format("<h2>{}</h2>\n", html(title_of(plan)));
  if (!plan.question.empty()) text += fmt::format("<p class=\"lead\">{}</p>\n", html(plan.question));
  text += fmt::format("<p class=\"counts\">{}</p>\n", counts(*study.results));
  text += figure(study, study.figures.front()) + findings(study);
  if (study.figures.size() > 1) text += "<h3>More figures</h3>\n";
  for (std::size_t i = 1; i < study.figures.size(); ++i) text += figure(study, study.figures[i]);
  return text + "<h3>How this was made</h3>\n" + provenance(*study.results) + "</section>\n";
}

std::string glossary(const std::vector<Term>& terms) {
  std::string text = "<section id=\"terms\">\n<h2>What the words mean</h2>\n<dl class=\"terms\">\n";
  for (const Term& term : terms)
    text += fmt::format("<dt id=\"{}\">{}</dt><dd>{}</dd>\n", term.id, html(term.name), term.meaning);
  return text + "</dl>\n</section>\n";
}

// The studies, and the words that the page explains.
std::string contents(const std::vector<PageStudy>& studies, const std::vector<Term>& terms) {
  std::string text;
  if (studies.size() > 1) {
    text += "<nav>";
    for (const PageStudy& study : studies)
      text += fmt::format("<a href=\"#{}\">{}</a>\n", study.id, html(title_of(study.results->study)));
    text += "</nav>\n";
  }
  text += "<p class=\"explained\">Explained below: ";
  for (std::size_t i = 0; i < terms.size(); ++i)
    text += fmt::format("{}<a href=\"#{}\">{}</a>", i == 0 ? "" : ", ", terms[i].id, html(terms[i].name));
  return text + ".</p>\n";
}

std::string summary_line(const std::vector<PageStudy>& studies) {
  std::size_t figures = 0, total = 0, hold = 0;
  for (const PageStudy& study : studies) {
    figures += study.figures.size();
    total += study.findings.size();
    for (const PageFinding& finding : study.findings) hold += finding.result.status == FindingStatus::holds;
  }
  std::string text = fmt::format("{} {}, {} {}.", studies.size(), studies.size() == 1 ? "study" : "studies",
                                 figures, figures == 1 ? "figure" : "figures");
  if (total > 0 && hold == total)
    text += total == 1   ? " Its finding holds."
            : total == 2 ? " Both findings hold."
                         : fmt::format(" All {} findings hold.", total);
  if (hold < total)
    text += fmt::format(
        " {} of {} findings hold wherever they were tested; each of the others says where it does not.", hold,
        total);
  return text;
}

}  // namespace

CellCounts count_cells(const StudyResults& results) {
  CellCounts counts;
  for (const StudyCell& cell : results.cells) {
    ++counts.total;
    counts.done += cell.status == CellStatus::done;
    counts.failed += cell.status == CellStatus::failed;
  }
  counts.missing = counts.total - counts.done - counts.failed;
  return counts;
}

std::string page(const std::vector<PageStudy>& studies, const std::string& given) {
  const bool alone = studies.size() == 1;
  const std::string title = !given.empty() ? given
                            : alone        ? title_of(studies.front().results->study)
                                           : "One attention layer";
  const std::vector<Term> terms = terms_of(studies);
  std::string text = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"generator\" content=\"headlens report {}\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n",
      version(), html(title), kPageStyle);
  text += fmt::format("<header>\n<h1>{}</h1>\n<p class=\"counts\">{}</p>\n{}</header>\n<main>\n", html(title),
                      summary_line(studies), contents(studies, terms));
  for (const PageStudy& study : studies) text += section(study, alone && given.empty());
  return text + glossary(terms) +
         fmt::format("</main>\n<footer>Written by headlens {} (commit {}).</footer>\n</body>\n</html>\n",
                     version(), commit());
}

}  // namespace headlens::report

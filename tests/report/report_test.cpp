// The folder a report leaves: its page, its figures, and what it refuses to touch.
#include "headlens/report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <set>

#include "headlens/error.hpp"
#include "io/files.hpp"
#include "report/planted.hpp"

namespace headlens {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;
using testing::HasSubstr;
using testing::Not;

class ReportTest : public test::FolderTest {
 protected:
  std::string read(const fs::path& name) const { return test::read_bytes(folder / name); }
  std::string page() const { return read("out/index.html"); }
  std::set<std::string> entries(const fs::path& name) const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder / name)) names.insert(entry.path().filename());
    return names;
  }
  Report write(const std::vector<StudyResults>& results) const {
    return write_report(results, folder / "out", {});
  }
};

FigureSpec curves() {
  return {FigureKind::learning_curves, "Error on fresh sets", "", "samples", "nmse", "", "model", ""};
}
FigureSpec sizes() {
  return {FigureKind::sample_table, "Sets needed", "", "samples", "", "", "model", "nmse"};
}

StudyResults power_laws(std::size_t seeds) {
  StudyResults results = planted({axis("samples", {64L, 256L, 1024L}), axis("model", {"RFA"s, "RFMLP"s})},
                                 seeds, [](const StudyValues& axes, std::uint64_t seed) -> StudyValues {
                                   const double slope = word(axes, "model") == "RFA" ? 1.5 : 0.1;
                                   return {{"nmse", (1 + 0.1 * static_cast<double>(seed)) *
                                                        std::pow(number(axes, "samples") / 32, -slope)}};
                                 });
  results.study.figures = {curves(), sizes()};
  results.study.findings = {
      {"RFA wins.", "nmse", "samples", {{"model", "RFA"s}}, {{"model", "RFMLP"s}}, {}, 0, 0},
      {"RFMLP wins.", "nmse", "samples", {{"model", "RFMLP"s}}, {{"model", "RFA"s}}, {}, 0, 0}};
  return results;
}

StudyResults recoveries() {
  StudyResults results =
      planted({axis("m", {1L, 2L}), axis("c", {1.0, 1.5, 2.0})}, 4,
              [](const StudyValues& axes, std::uint64_t seed) -> StudyValues {
                const double c = number(axes, "c");
                return {{"success", c > 1.2 && (number(axes, "m") == 1 || c > 1.7 || seed < 2)}};
              });
  results.study.figures = {{FigureKind::phase_diagram, "Success", "", "c", "m", "", "", "success"}};
  return results;
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size()) ++found;
  return found;
}

TEST_F(ReportTest, HoldsEveryFigureInEveryForm) {
  const Report report = write({power_laws(5), recoveries()});
  ASSERT_EQ(report.figures.size(), 3U);
  EXPECT_EQ(report.page, folder / "out/index.html");
  std::set<std::string> names;
  for (const ReportFigure& figure : report.figures) {
    EXPECT_TRUE(names.insert(figure.name).second);  // both studies are called "planted"
    for (const char* kind : {"svg", "pdf", "png", "csv"}) {
      EXPECT_GT(fs::file_size(folder / "out/figures" / (figure.name + "." + kind)), 100U);
      EXPECT_THAT(page(), HasSubstr("href=\"figures/" + figure.name + "." + kind + "\""));
    }
    EXPECT_THAT(page(), HasSubstr(read("out/figures/" + figure.name + ".svg")));
  }
  EXPECT_EQ(entries("out"), (std::set<std::string>{"index.html", "figures", ".headlens-report"}));
}

TEST_F(ReportTest, PageStandsAlone) {
  write({power_laws(5), recoveries()});
  const std::string text = page();
  EXPECT_EQ(count(text, "http"), 2 * count(text, "<svg"));  // the two name spaces of SVG
  EXPECT_THAT(text, Not(HasSubstr("<script")));
  EXPECT_THAT(text, Not(HasSubstr("@import")));
  EXPECT_THAT(text, HasSubstr("prefers-color-scheme: dark"));
  std::set<std::string> ids;
  const std::regex pattern(" id=['\"]([^'\"]*)['\"]");
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it)
    EXPECT_TRUE(ids.insert((*it)[1]).second) << (*it)[1];
}

TEST_F(ReportTest, PageSaysWhatTheNumbersSay) {
  const Report report = write({power_laws(5), recoveries()});
  const std::string text = page();
  ASSERT_EQ(report.findings.size(), 2U);
  EXPECT_EQ(report.findings[0].status, FindingStatus::holds);
  EXPECT_EQ(report.findings[1].status, FindingStatus::does_not_hold);
  for (const FindingResult& finding : report.findings) EXPECT_THAT(text, HasSubstr(finding.verdict));
  // Once in the list of findings, and below the curves that show it.
  EXPECT_EQ(count(text, "<span class=\"chip does-not-hold\">does not hold</span>"), 2U);
  EXPECT_THAT(text, HasSubstr("Lines are medians of the error (nmse) over 5 seeds; bands reach from the 10% "
                              "to the 90% quantile."));
  EXPECT_THAT(text, HasSubstr("At 1024 training sets the smallest median is that of RFA, "));
  EXPECT_THAT(text, HasSubstr("All seeds succeed at c = 1.5 to 2 (m = 1), c = 2 (m = 2)."));
  EXPECT_THAT(text, HasSubstr("not reached by 1024"));
  for (const char* part :
       {"Does the report say what was planted?", "headlens study run planted.toml -o planted.db", "abc1234",
        "elsewhere", "Haswell", "30 of 30 cells finished, 5 seeds"})
    EXPECT_THAT(text, HasSubstr(part));
}

TEST_F(ReportTest, AStudyWithoutFiguresHasOne) {
  StudyResults results = power_laws(3);
  results.study.record = {"nmse"};
  results.study.figures.clear();
  const Report report = write({results});
  ASSERT_EQ(report.figures.size(), 1U);
  EXPECT_EQ(report.figures[0].title, "Error (nmse) against training sets");
  EXPECT_THAT(read("out/figures/" + report.figures[0].name + ".svg"), HasSubstr("<text>RFMLP</text>"));
}

TEST_F(ReportTest, TheTitleCanBeGiven) {
  write_report({power_laws(3)}, folder / "out", {}, "Mine & <yours>");
  EXPECT_THAT(page(), HasSubstr("<title>Mine &amp; &lt;yours&gt;</title>"));
  EXPECT_THAT(page(), HasSubstr("<h1>Mine &amp; &lt;yours&gt;</h1>"));
  EXPECT_THAT(page(), HasSubstr("<h2>A planted study</h2>"));
}

TEST_F(ReportTest, TheFirstFigureLeadsAndEveryFindingHasOne) {
  write({power_laws(5)});
  const std::string text = page();
  EXPECT_LT(text.find("<figure"), text.find("<h3>Findings</h3>"));
  EXPECT_EQ(count(text, "<div class=\"compared\">"), 2U);
  EXPECT_EQ(count(text, "<text>error (nmse): RFMLP ÷ RFA</text>"), 1U);
  EXPECT_EQ(count(text, "<text>error (nmse): RFA ÷ RFMLP</text>"), 1U);
}

TEST_F(ReportTest, OneModelHasOneColourInEveryFigure) {
  write({power_laws(5)});
  // Sample sizes: colours are those of the models too, not of the three errors.
  std::string sizes = read("out/figures/planted-2-sample-sizes.svg");
  sizes = sizes.substr(sizes.find("</style>"));
  for (const char* colour : {"#0072b2", "#d55e00"}) EXPECT_THAT(sizes, HasSubstr(colour));
  EXPECT_THAT(sizes, Not(HasSubstr("#009e73")));
}

TEST_F(ReportTest, ExplainsTheTermsItUsesAndNoOthers) {
  StudyResults results = power_laws(3);
  for (StudyCell& cell : results.cells)
    cell.inputs = {{"task", "power-mean"s},
                   {"degree", 2L},
                   {"keys", 8L},
                   {"dim", 4L},
                   {"model", word(cell.axes, "model") == "RFA" ? "rfa"s : "mlp"s}};
  write({results});
  const std::string text = page();
  for (const char* term :
       {"RFA", "RFMLP", "Error (nmse)", "Target: power mean", "Training sets", "Seed", "95% interval"})
    EXPECT_THAT(text, HasSubstr("\">"s + term + "</dt><dd>")) << term;
  for (const char* other : {"BRFA", "Target: native", "SQ dimension", "Recovered", "varpro"})
    EXPECT_THAT(text, Not(HasSubstr("\">"s + other + "</dt>"))) << other;
  EXPECT_THAT(text, HasSubstr("y = (1/N) Σ<sub>i</sub> ⟨β, x<sub>i</sub>⟩<sup>p</sup>"));
  EXPECT_THAT(text, HasSubstr("On this page p = 2, with N = 8 keys in d = 4 dimensions."));
}

// What a reader sees: no tags, style sheets or study files.
std::string words_of(std::string page) {
  for (const std::string& tag : {"style"s, "pre"s})
    for (std::size_t from = 0; (from = page.find("<" + tag)) != std::string::npos;)
      page.erase(from, page.find("</" + tag, from) - from);
  std::string words;
  bool inside = false;
  for (const char c : page) {
    if (c == '<') inside = true;
    if (!inside) words += c;
    if (c == '>') inside = false;
  }
  return words;
}

TEST_F(ReportTest, OneQuantityHasOneName) {
  write({power_laws(3), recoveries()});
  const std::string words = words_of(page());
  EXPECT_EQ(count(words, "samples"), 0U);
  EXPECT_GT(count(words, "training sets"), 10U);
  const std::size_t defined = count(words, "nmse = mean of");
  EXPECT_EQ(defined, 1U);
  EXPECT_EQ(count(words, "nmse"), count(words, "rror (nmse)") + defined);
}

TEST_F(ReportTest, PhaseDiagramShowsItsNumbers) {
  const Report report = write({recoveries()});
  const std::string svg = read("out/figures/" + report.figures.at(0).name + ".svg");
  EXPECT_EQ(count(svg, "<text>0%</text>"), 2U);
  EXPECT_EQ(count(svg, "<text>25%</text>"), 1U);
  EXPECT_EQ(count(svg, "<text>100%</text>"), 3U);
}

TEST_F(ReportTest, HeadCurvesShowTheLimit) {
  StudyResults results = planted(
      {axis("heads", {10L, 100L, "inf"s})}, 3, [](const StudyValues& axes, std::uint64_t) -> StudyValues {
        return {{"nmse", word(axes, "heads") == "inf" ? 0.1 : 0.1 + 1 / number(axes, "heads")}};
      });
  results.study.figures = {{FigureKind::head_curves, "Heads", "", "heads", "nmse", "", "", ""}};
  const Report report = write({results});
  const std::string svg = read("out/figures/" + report.figures.at(0).name + ".svg");
  EXPECT_THAT(svg, HasSubstr("<text>infinitely many heads</text>"));
  EXPECT_THAT(svg, Not(HasSubstr("<text>inf</text>")));  // no place on the axis
  EXPECT_THAT(read("out/figures/" + report.figures[0].name + ".csv"), HasSubstr(",inf,nmse,3,0.1,"));
}

TEST_F(ReportTest, TakesOddStudies) {
  const auto plant = [](std::vector<StudyValue> samples, std::size_t seeds, const Outcome& outcome) {
    StudyResults results =
        planted({axis("samples", std::move(samples)), axis("model", {"RFA"s})}, seeds, outcome);
    results.study.figures = {curves(), sizes()};
    return results;
  };
  const auto say = [](double value) {
    return [=](const StudyValues&, std::uint64_t) -> StudyValues { return {{"nmse", value}}; };
  };
  EXPECT_EQ(write({plant({64L, 128L}, 1, say(0.5))}).figures.size(), 2U);
  EXPECT_THAT(page(), HasSubstr("There is one seed, so no spread is shown."));
  EXPECT_EQ(write({plant({64L}, 3, say(0.5))}).figures.size(), 2U);
  EXPECT_EQ(write({plant({64L, 128L}, 3, say(1.0))}).figures.size(), 2U);
  // Zeros have no place on a logarithmic axis, but they have reached every error.
  EXPECT_EQ(write({plant({64L, 128L}, 3, say(0.0))}).figures.size(), 1U);
  EXPECT_THAT(page(), HasSubstr("6 values are left out because they are zero, negative or not a number."));
  EXPECT_THAT(page(), HasSubstr("≤ 64"));
  EXPECT_EQ(write({plant({64L, 128L}, 3, say(NAN))}).figures.size(), 0U);
  EXPECT_THAT(page(), HasSubstr("There is nothing to draw"));
  EXPECT_EQ(write({plant({"few"s, "many"s}, 3, say(0.5))}).figures.size(), 0U);  // words have no place either
  const Report none =
      write({plant({64L, 128L}, 3, [](const StudyValues&, std::uint64_t) { return StudyValues{}; })});
  EXPECT_EQ(none.missing, 6);
  EXPECT_THAT(page(), HasSubstr("0 of 6 cells finished, 3 seeds, 6 missing"));
}

TEST_F(ReportTest, SaysWhatIsMissingAndWhatFailed) {
  StudyResults results = power_laws(5);
  results.cells[0].status = CellStatus::missing;
  results.cells[1].status = CellStatus::running;
  results.cells[2].status = CellStatus::failed;
  results.cells[2].error = "out of <memory>";
  const Report report = write({results});
  EXPECT_EQ(report.missing, 2);
  EXPECT_EQ(report.failed, 1);
  EXPECT_THAT(page(), HasSubstr("2 of 30 cells are not finished yet. 1 of 30 cells failed."));
  EXPECT_THAT(page(), HasSubstr("out of &lt;memory&gt;"));
}

TEST_F(ReportTest, HostileNamesStayText) {
  const fs::path owned = folder / "owned";
  const std::string evil = "<script>alert(1)</script> `touch " + owned.string() +
                           "` 'q' \"d\" {/Bold x_1} $0 @m %d ]]> &amp;\nplot 1";
  StudyResults results =
      planted({axis("samples", {64L, 128L}), axis("model", {evil, "B"s}), axis("target", {evil})}, 3,
              [](const StudyValues& axes, std::uint64_t) -> StudyValues {
                return {{"nmse", 1 / number(axes, "samples")}};
              });
  Study& study = results.study;
  study.name = study.title = study.question = study.source = evil;
  results.command_line = results.cells[0].host = evil;
  study.figures = {
      curves(), sizes(), {FigureKind::phase_diagram, evil, evil, "samples", "model", "target", "", "nmse"}};
  for (FigureSpec& figure : study.figures) figure.panel = "target";
  study.findings = {{evil, "nmse", "samples", {{"model", "B"s}}, {{"model", evil}}, {}, 0, 0}};
  const Report report = write({results});
  EXPECT_FALSE(fs::exists(owned));
  EXPECT_EQ(report.figures.size(), 3U);
  EXPECT_THAT(page(), Not(HasSubstr("<script")));
  EXPECT_THAT(page(), HasSubstr("&lt;script&gt;alert(1)&lt;/script&gt;"));
  for (const ReportFigure& figure : report.figures)
    EXPECT_THAT(figure.name, testing::MatchesRegex("[a-z0-9-]+"));
}

TEST_F(ReportTest, ReplacesAnEarlierReportAndNothingElse) {
  write({power_laws(3), recoveries()});
  // Whatever is not of the report, even where it looks like a figure.
  const std::vector<std::string> mine{"notes.txt", "figures/notes.txt", "figures/mine.png",
                                      "figures/mine.csv", "figures/drafts/1.svg"};
  fs::create_directory(folder / "out/figures/drafts");
  for (const std::string& name : mine) std::ofstream(folder / "out" / name) << "mine";
  const Report report = write({recoveries()});
  for (const std::string& name : mine) EXPECT_EQ(read("out/" + name), "mine") << name;
  std::set<std::string> expected{"notes.txt", "mine.png", "mine.csv", "drafts"};
  for (const char* kind : {"svg", "pdf", "png", "csv"}) expected.insert(report.figures[0].name + "." + kind);
  EXPECT_EQ(entries("out/figures"), expected);
}

TEST_F(ReportTest, RefusesToReplaceWhatAUserChanged) {
  const std::string csv = "out/figures/" + write({recoveries()}).figures[0].name + ".csv";
  std::ofstream(folder / csv) << "mine";
  const std::string before = page();
  test::expect_error([&] { write({recoveries()}); }, {csv, "move it away"});
  EXPECT_EQ(read(csv), "mine");
  EXPECT_EQ(page(), before);
  write({power_laws(3)});  // has no file of that name: the changed one stays, now as the user's
  EXPECT_EQ(read(csv), "mine");
  test::expect_error([&] { write({recoveries()}); }, {csv});
  fs::remove(folder / csv);
  write({recoveries()});
  EXPECT_EQ(entries("out/figures").size(), 4U);
}

TEST_F(ReportTest, AListCannotReachOutOfItsFolder) {
  write({power_laws(3)});
  std::ofstream(folder / "secret") << "123456789";  // the CRC-32 of these is cbf43926
  std::ofstream(folder / "out/.headlens-report", std::ios::app)
      << "cbf43926 ../secret\ncbf43926 figures/../../secret\n";
  write({recoveries()});
  EXPECT_EQ(read("secret"), "123456789");
}

TEST_F(ReportTest, RefusesOtherFolders) {
  fs::create_directory(folder / "site");
  std::ofstream(folder / "site/index.html") << "<html>mine</html>";
  EXPECT_THROW(write_report({recoveries()}, folder / "site", {}), Error);
  EXPECT_EQ(entries("site"), std::set<std::string>{"index.html"});
  write({recoveries()});
  fs::rename(folder / "out/figures", folder / "elsewhere");
  fs::create_directory_symlink(folder / "elsewhere", folder / "out/figures");
  EXPECT_THROW(write({recoveries()}), Error);
  std::ofstream(folder / "file") << "mine";
  EXPECT_THROW(write_report({recoveries()}, folder / "file", {}), Error);
  EXPECT_THROW(write_report({recoveries()}, folder / "no/such", {}), Error);
  EXPECT_THROW(write({}), Error);
}

class Path {  // PATH for as long as this lives
 public:
  explicit Path(const fs::path& path) : before_(std::getenv("PATH")) { setenv("PATH", path.c_str(), 1); }
  ~Path() { setenv("PATH", before_.c_str(), 1); }
  Path(const Path&) = delete;
  Path& operator=(const Path&) = delete;

 private:
  std::string before_;
};

TEST_F(ReportTest, WithoutGnuplotNothingIsWritten) {
  write({recoveries()});
  const std::string before = page();
  const auto write_to = [&](const char* target) { write_report({power_laws(3)}, folder / target, {}); };
  const Path path(folder);
  test::expect_error([&] { write_to("new"); }, {"gnuplot, which is not installed"}, ErrorCode::environment);
  std::ofstream(folder / "gnuplot") << "#!/bin/sh\necho 'line 7: oops' >&2\nexit 1\n";
  fs::permissions(folder / "gnuplot", fs::perms::owner_all);
  test::expect_error([&] { write_to("new"); }, {"gnuplot failed: line 7: oops"}, ErrorCode::environment);
  EXPECT_FALSE(fs::exists(folder / "new"));
  EXPECT_THROW(write_to("out"), Error);
  EXPECT_EQ(page(), before);
  EXPECT_EQ(entries("out").size(), 3U);
}

}  // namespace
}  // namespace headlens

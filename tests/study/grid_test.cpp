// Cells and their keys.
#include "study/grid.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <set>

#include "studies.hpp"
#include "study/cell_inputs.hpp"
#include "study/cell_options.hpp"

namespace headlens::test {
namespace {

std::set<std::string> keys(const std::string& text) {
  std::set<std::string> found;
  for (const StudyCell& cell : make_cells(parse_study(text, "s"))) found.insert(cell.key);
  return found;
}

std::string value(const StudyValues& values, const std::string& name) {
  for (const auto& [key, item] : values)
    if (key == name) return text(item);
  return "absent";
}

}  // namespace

TEST(Grid, LastAxisThenSeedsVaryFastest) {
  const auto cells = make_cells(parse_study(R"(name = "s"
command = "fit"
seeds = [7, 8]
[grid]
dim = [2, 3]
samples = [10, 20, 30]
)",
                                            "s"));
  ASSERT_EQ(cells.size(), 12U);
  EXPECT_EQ(cells[0].seed, 7U);
  EXPECT_EQ(cells[1].seed, 8U);
  EXPECT_EQ(value(cells[2].axes, "samples"), "20");
  EXPECT_EQ(value(cells[5].axes, "dim"), "2");
  EXPECT_EQ(value(cells[6].axes, "dim"), "3");
}

TEST(Grid, InputsHoldDefaultsAndOnlyWhatApplies) {
  const StudyCell cell = make_cells(tiny()).front();
  EXPECT_EQ(value(cell.inputs, "task"), "power-mean");
  EXPECT_EQ(value(cell.inputs, "degree"), "1");
  EXPECT_EQ(value(cell.inputs, "ridge"), "auto");
  EXPECT_EQ(value(cell.inputs, "model"), "rfa");
  EXPECT_EQ(value(cell.axes, "model"), "A");
  for (const char* name : {"pure", "matrix", "weight", "huber-delta"})
    EXPECT_EQ(value(cell.inputs, name), "absent");
}

// Published test vectors of 128-bit FNV-1a.
TEST(Key, IsFnv) {
  EXPECT_EQ(cell_key(""), "6c62272e07bb014262b821756295c58d");
  EXPECT_EQ(cell_key("a"), "d228cb696f1a8caf78912b704e4a8964");
}

TEST(Key, CanonicalText) {
  EXPECT_EQ(
      canonical_text(StudyCommand::recover, {{"heads", std::int64_t{2}}, {"scale", 0.1}, {"x", true}}, 5),
      "headlens cell 1\ncommand recover\nheads 2\nscale 0.1\nx true\nseed 5\n");
}

// Stores are kept for years: the key of a cell may only change when kCellFormat does.
TEST(Key, DoesNotDrift) { EXPECT_EQ(make_cells(tiny()).front().key, "c05b9cd033fdf3b4da63394be42bea00"); }

TEST(Key, GivenDefaultsChangeNothing) {
  EXPECT_EQ(keys(tiny_text), keys(replaced(tiny_text, "dim = 3", "dim = 3\nnoise = 0\nridge = \"auto\"")));
  EXPECT_EQ(keys(tiny_text), keys(replaced(tiny_text, "A = ", "\"another name\" = ")));
  EXPECT_EQ(keys(tiny_text), keys(replaced(tiny_text, "name = \"tiny\"", "name = \"other\"")));
}

TEST(Key, EveryInputCounts) {
  const std::set<std::string> before = keys(tiny_text);
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"dim = 3", "dim = 4"},
                                                        {"dim = 3", "dim = 3\nnoise = 1e-9"},
                                                        {"keys = 3", "keys = 4"},
                                                        {"test-samples = 20", "test-samples = 21"},
                                                        {"dim = 3", "dim = 3\ntask = \"query-power\""},
                                                        {"dim = 3", "dim = 3\nprecision = \"f32\""},
                                                        {"dim = 3", "dim = 3\nintercept = false"},
                                                        {"dim = 3", "dim = 3\nbias-scale = 0"},
                                                        {"dim = 3", "dim = 3\nhead-rank = 2"},
                                                        {"heads = 5", "heads = 6"}})
    for (const std::string& key : keys(replaced(tiny_text, from, to)))
      EXPECT_FALSE(before.contains(key)) << to;
}

TEST(Key, MoreValuesKeepTheOldCells) {
  const auto before = keys(tiny_text), after = keys(replaced(tiny_text, "[5, 10", "[3, 5, 10"));
  EXPECT_EQ(after.size(), before.size() + 2);
  EXPECT_TRUE(std::includes(after.begin(), after.end(), before.begin(), before.end()));
}

TEST(Options, ExamplesPerUnknown) {
  // n = ceil(c m d (d + e) / (k e)); with e = d that is c 2 m d / k.
  const auto count = [](double c, std::int64_t outputs) {
    return value(complete_inputs(StudyCommand::recover, {{"heads", std::int64_t{3}},
                                                         {"dim", std::int64_t{8}},
                                                         {"outputs", outputs},
                                                         {"tokens", std::int64_t{4}},
                                                         {"examples-per-unknown", c}}),
                 "count");
  };
  EXPECT_EQ(count(2.0, 0), "24");
  EXPECT_EQ(count(2.01, 0), "25");
  EXPECT_EQ(count(1.0, 1), "54");
}

// Heads of rank r have m r (3 d + e) unknowns, in the factors that recovery is told to look for.
TEST(Options, ExamplesPerUnknownOfTheFactors) {
  const StudyValues inputs = complete_inputs(StudyCommand::recover, {{"heads", std::int64_t{3}},
                                                                     {"dim", std::int64_t{8}},
                                                                     {"outputs", std::int64_t{4}},
                                                                     {"rank", std::int64_t{2}},
                                                                     {"factor-rank", std::int64_t{2}},
                                                                     {"tokens", std::int64_t{5}},
                                                                     {"examples-per-unknown", 10.0}});
  EXPECT_EQ(value(inputs, "count"), "84");  // 10 * 3 * 2 * 28 / (5 * 4)
  EXPECT_EQ(recover_inputs(inputs, 1).recover.rank, "2");
  EXPECT_THROW(complete_inputs(StudyCommand::recover, {{"factor-rank", std::string("low")}}), Error);
}

// Options that came later are left out at their defaults, so that older stores keep their cells.
TEST(Options, LaterOnesLeaveOldKeysAlone) {
  const StudyValues generic = complete_inputs(StudyCommand::recover, {{"layer", std::string("generic")}});
  EXPECT_EQ(generic, complete_inputs(StudyCommand::recover, {}));
  for (const auto& item : generic) EXPECT_TRUE(item.first != "layer" && item.first != "time-limit");
  EXPECT_EQ(value(complete_inputs(StudyCommand::recover, {{"time-limit", 2.0}}), "time-limit"), "2");
  const std::string brfa = "brfa", identity = "identity", full = "full";
  EXPECT_EQ(complete_inputs(StudyCommand::fit, {{"model", brfa}, {"mean", identity}, {"head-rank", full}}),
            complete_inputs(StudyCommand::fit, {{"model", brfa}}));
}

TEST(Values, TextReadsBack) {
  EXPECT_EQ(text(StudyValue{2.0}), "2");
  EXPECT_EQ(text(StudyValue{true}), "true");
  rc::check([](double number) { return std::stod(text(StudyValue{number})) == number; });
}

}  // namespace headlens::test

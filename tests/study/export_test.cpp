// Tables, byte for byte.
#include <nlohmann/json.hpp>

#include "studies.hpp"
#include "study/grid.hpp"

namespace headlens::test {
namespace {

StudyResults example() {
  StudyResults results;
  results.study = parse_study(R"(name = "example"
command = "recover"
seeds = [1]
record = ["worst-error", "success", "recover-seconds"]
[grid]
examples-per-unknown = [1.5, 3]
[variants.layer]
"soft, two" = {heads = 2, scale = 0.5}
)",
                              "s");
  results.cells = make_cells(results.study);
  StudyCell& done = results.cells[0];
  done.status = CellStatus::done;
  done.outputs = {{"outcome", std::string("recovered")},
                  {"worst-error", std::numeric_limits<double>::infinity()},
                  {"success", std::int64_t{1}},
                  {"recover-seconds", 0.25}};
  done.seconds = 0.5;
  done.peak_bytes = 1000;
  done.version = "0.1.0";
  done.git_commit = "abc";
  done.host = "h";
  done.blas_core = "core";
  done.finished = "2026-01-02T03:04:05Z";
  return results;
}

}  // namespace

TEST(Export, Csv) {
  EXPECT_EQ(export_results(example(), ExportFormat::csv),
            read_bytes(std::filesystem::path(HEADLENS_TEST_DIR) / "study" / "golden" / "example.csv"));
}

TEST(Export, QuotesAreDoubled) {
  StudyResults results = example();
  results.cells[1].status = CellStatus::failed;
  results.cells[1].error = "a \"word\"\nand a line";
  EXPECT_NE(export_results(results, ExportFormat::csv).find("\"a \"\"word\"\"\nand a line\""),
            std::string::npos);
}

TEST(Export, Json) {
  const auto json = nlohmann::json::parse(export_results(example(), ExportFormat::json));
  EXPECT_EQ(json["study"], "example");
  ASSERT_EQ(json["cells"].size(), 2U);
  const auto& cell = json["cells"][0];
  EXPECT_EQ(cell["axes"]["layer"], "soft, two");
  EXPECT_EQ(cell["inputs"]["scale"], 0.5);
  EXPECT_EQ(cell["inputs"]["count"], 12);  // 1.5 * 2 * 2 heads * 8 / 4
  EXPECT_TRUE(cell["outputs"]["worst-error"].is_null());
  EXPECT_EQ(cell["outputs"]["success"], 1);
  EXPECT_EQ(json["cells"][1]["status"], "missing");
}

}  // namespace headlens::test

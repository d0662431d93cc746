// Running, resuming, sharing, failing and cancelling.
#include <sys/wait.h>

#include <atomic>
#include <thread>

#include "studies.hpp"
#include "study/grid.hpp"
#include "study/store.hpp"

namespace headlens::test {
namespace {

class RunnerTest : public FolderTest {
 protected:
  std::filesystem::path path = folder / "results.db";

  StudyResults results() { return read_results(path).at(0); }
};

// What must not depend on how a study was run.
std::string stable(const StudyResults& results) {
  StudyResults copy = results;
  for (StudyCell& cell : copy.cells) {
    cell.seconds = 0;
    cell.peak_bytes = 0;  // more threads, more memory
    cell.finished = "";
    std::erase_if(cell.outputs, [](const auto& item) { return item.first.ends_with("seconds"); });
  }
  return export_results(copy, ExportFormat::csv);
}

}  // namespace

TEST_F(RunnerTest, RunsEverythingOnce) {
  const RunSummary first = run_study(tiny(), path, {.command_line = "as typed"}, one_thread());
  EXPECT_EQ(first.total, 10);
  EXPECT_EQ(first.ran, 10);
  EXPECT_EQ(first.failed + first.already_done + first.elsewhere, 0);
  const StudyResults found = results();
  EXPECT_EQ(found.command_line, "as typed");
  for (const StudyCell& cell : found.cells) {
    EXPECT_EQ(cell.status, CellStatus::done);
    ASSERT_EQ(cell.outputs.size(), 4U);
    EXPECT_EQ(cell.outputs[0], (std::pair<std::string, StudyValue>{"outcome", std::string("solved")}));
    EXPECT_EQ(cell.outputs[1].first, "nmse");
    EXPECT_FALSE(cell.version.empty() || cell.git_commit.empty() || cell.host.empty() ||
                 cell.blas_core.empty());
  }
  const RunSummary second = run_study(tiny(), path, {}, one_thread());
  EXPECT_EQ(second.ran, 0);
  EXPECT_EQ(second.already_done, 10);
  EXPECT_EQ(stable(results()), stable(found));
}

TEST_F(RunnerTest, ThreadsAndJobsChangeNothing) {
  run_study(tiny(), path, {}, one_thread());
  Execution four = one_thread();
  four.threads = 4;
  run_study(tiny(), folder / "four.db", {.jobs = 2}, four);
  run_study(tiny(), folder / "many.db", {.jobs = 9}, one_thread());
  EXPECT_EQ(stable(read_results(folder / "four.db").at(0)), stable(results()));
  EXPECT_EQ(stable(read_results(folder / "many.db").at(0)), stable(results()));
}

TEST_F(RunnerTest, AChangedStudyAddsCells) {
  run_study(tiny(), path, {}, one_thread());
  const Study more = parse_study(replaced(tiny_text, "[5, 10, 20", "[7, 10, 20"), "s");
  const RunSummary summary = run_study(more, path, {}, one_thread());
  EXPECT_EQ(summary.already_done, 8);
  EXPECT_EQ(summary.ran, 2);
  EXPECT_EQ(results().cells.size(), 10U);
  EXPECT_EQ(results().study.source, more.source);
  EXPECT_EQ(count_other_cells(path), 2);
  // The old grid is still there, whole.
  for (const StudyCell& cell : read_results(path, tiny()).cells) EXPECT_EQ(cell.status, CellStatus::done);
}

TEST_F(RunnerTest, EqualCellsRunOnce) {
  const std::string twice = replaced(tiny_text, "heads = 5}", "heads = 5}\nB = {model = \"rfa\", heads = 5}");
  const RunSummary summary = run_study(parse_study(twice, "s"), path, {}, one_thread());
  EXPECT_EQ(summary.total, 10);
  EXPECT_EQ(results().cells.size(), 20U);
  for (const StudyCell& cell : results().cells) EXPECT_EQ(cell.status, CellStatus::done);
}

TEST_F(RunnerTest, AFailingCellIsRecordedAndStopsNothing) {
  Execution little = one_thread();
  const Study study = parse_study(replaced(tiny_text, "30, 40]", "30, 200000]"), "s");
  little.max_memory_bytes = 10 << 20;  // 200000 sets of 12 numbers need more
  const RunSummary summary = run_study(study, path, {}, little);
  EXPECT_EQ(summary.ran, 10);
  EXPECT_EQ(summary.failed, 2);
  for (const StudyCell& cell : results().cells) {
    const bool large = cell.axes[0].second == StudyValue{std::int64_t{200000}};
    EXPECT_EQ(cell.status, large ? CellStatus::failed : CellStatus::done);
    EXPECT_EQ(cell.error.find("may be used") != std::string::npos, large) << cell.error;
    EXPECT_EQ(cell.outputs.empty(), large);
  }
  EXPECT_EQ(run_study(study, path, {}, little).ran, 0);
  const RunSummary again = run_study(study, path, {.retry_failed = true}, little);
  EXPECT_EQ(again.ran, 2);
  EXPECT_EQ(again.failed, 2);
}

TEST_F(RunnerTest, TwoRunnersShareAStore) {
  run_study(tiny(), folder / "alone.db", {}, one_thread());
  RunSummary a, b;
  {
    std::jthread other([&] { a = run_study(tiny(), path, {}, one_thread()); });
    b = run_study(tiny(), path, {}, one_thread());
  }
  for (const RunSummary& summary : {a, b})
    EXPECT_EQ(summary.already_done + summary.ran + summary.elsewhere, summary.total);
  EXPECT_EQ(a.ran + b.ran, 10);
  EXPECT_EQ(stable(results()), stable(read_results(folder / "alone.db").at(0)));
}

TEST_F(RunnerTest, TwoProcessesShareAStore) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      run_study(tiny(), path, {}, one_thread());
      _exit(0);
    } catch (...) {
      _exit(1);
    }
  }
  run_study(tiny(), path, {}, one_thread());
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  for (const StudyCell& cell : results().cells) EXPECT_EQ(cell.status, CellStatus::done);
}

TEST_F(RunnerTest, CancellingLosesOnlyCellsInFlight) {
  run_study(tiny(), folder / "alone.db", {}, one_thread());
  const Study slow = parse_study(replaced(tiny_text, "30, 40]", "30, 40, 3000]"), "s");
  Execution execution = one_thread();
  const auto done = [&] {
    Index count = 0;
    for (const StudyCell& cell : read_results(path, slow).cells)
      count += cell.status == CellStatus::done ? 1 : 0;
    return count;
  };
  execution.cancelled = [&] { return std::filesystem::exists(path) && done() >= 4; };
  expect_error([&] { run_study(slow, path, {.jobs = 2}, execution); }, {"interrupted", "of 12 cells"},
               ErrorCode::interrupted);
  EXPECT_GE(done(), 4);
  for (const StudyCell& cell : results().cells) EXPECT_NE(cell.status, CellStatus::running);
  run_study(tiny(), path, {}, one_thread());
  EXPECT_EQ(stable(results()), stable(read_results(folder / "alone.db").at(0)));
}

TEST_F(RunnerTest, ReportsProgressOnTheCallingThread) {
  Execution execution = one_thread();
  const auto here = std::this_thread::get_id();
  std::string last;
  execution.progress = [&](const Progress& progress) {
    EXPECT_EQ(std::this_thread::get_id(), here);
    last = progress.phase;
  };
  run_study(tiny(), path, {}, execution);
  EXPECT_EQ(last.find("cells 10/10"), 0U) << last;
}

TEST_F(RunnerTest, MisuseLeavesNoFile) {
  expect_error([&] { run_study(tiny(), path, {.jobs = -1}, one_thread()); }, {"jobs: -1 given"});
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace headlens::test

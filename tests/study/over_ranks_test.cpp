// Studies over ranks that are threads. Machines are folders: each has a RESULTS.db and parts of its own.
#include "study/over_ranks.hpp"

#include "reference/thread_ranks.hpp"
#include "studies.hpp"
#include "study/run_lock.hpp"
#include "study/store.hpp"

namespace headlens::test {
namespace {

namespace fs = std::filesystem;
using reference::on_ranks;
using reference::ThreadRanks;

class OverRanksTest : public FolderTest {
 protected:
  // The store of a rank: so many ranks are on machine a, the others on b.
  fs::path store(const comm::Communicator& ranks, int on_a) const {
    return folder / (ranks.rank() < on_a ? "a" : "b") / "r.db";
  }
  void make_machines() const {
    for (const char* name : {"a", "b"}) fs::create_directory(folder / name);
  }
  // What a killed run leaves: part `number` of four, where rank `rank` was.
  void leave_part(const char* machine, int rank, int number) const {
    run_study(tiny(), part(machine, rank), {.shard = join(number, "/4")}, one_thread());
  }
  fs::path part(const char* machine, int rank) const { return folder / machine / join("r.db.rank-", rank); }

  std::set<std::string> files(const char* machine) const {
    std::set<std::string> out;
    for (const auto& entry : fs::directory_iterator(folder / machine)) out.insert(entry.path().filename());
    return out;
  }
};

const std::set<std::string> kStoreAlone{"r.db"}, kNothing;

}  // namespace

TEST_F(OverRanksTest, AStudyOfRanksOnTwoMachinesIsWhole) {
  make_machines();
  on_ranks(3, [&](ThreadRanks& ranks) {
    const RunSummary done = run_study_over(ranks, tiny(), store(ranks, 2), {}, one_thread());
    EXPECT_EQ(done.ran, 10);
  });
  for (const StudyCell& cell : read_results(folder / "a" / "r.db", tiny()).cells)
    EXPECT_EQ(cell.status, CellStatus::done);
  EXPECT_EQ(files("a"), kStoreAlone);
  EXPECT_EQ(files("b"), kNothing);
}

// Whatever the numbers of the parts are: those of a machine are dealt out among the ranks that run there.
TEST_F(OverRanksTest, PartsAreTakenUpWithAnyNumberOfRanks) {
  for (const auto& [size, on_a] : std::vector<std::pair<int, int>>{{2, 1}, {3, 2}, {3, 1}, {5, 2}}) {
    make_machines();
    leave_part("a", 0, 1);
    leave_part("b", 1, 2);
    leave_part("b", 2, 3);
    leave_part("b", 12, 4);
    on_ranks(size, [&, on_a = on_a](ThreadRanks& ranks) {
      const RunSummary done = run_study_over(ranks, tiny(), store(ranks, on_a), {}, one_thread());
      EXPECT_EQ(done.ran, 0);
      if (ranks.rank() == 0) EXPECT_EQ(done.already_done, 10);
    });
    EXPECT_EQ(files("a"), kStoreAlone);
    EXPECT_EQ(files("b"), kNothing);
    fs::remove(folder / "a" / "r.db");
  }
}

TEST_F(OverRanksTest, PartsOfALivingRunAreLeftAlone) {
  make_machines();
  leave_part("b", 1, 2);
  const std::string before = read_bytes(part("b", 1));
  const auto run_again = [&](ThreadRanks& ranks) {
    run_study_over(ranks, tiny(), store(ranks, 1), {}, one_thread());
  };
  {
    RunLock living(folder / "b" / "r.db");
    living.begin();
    on_ranks(3, [&](ThreadRanks& ranks) {
      expect_error([&] { run_again(ranks); }, {"another run over ranks is at work", "r.db.lock"},
                   ErrorCode::environment);
    });
    EXPECT_EQ(read_bytes(part("b", 1)), before);
    EXPECT_EQ(files("a"), kNothing);
  }
  on_ranks(3, run_again);
  EXPECT_EQ(files("a"), kStoreAlone);
  EXPECT_EQ(files("b"), kNothing);
}

TEST_F(OverRanksTest, ALockHoldsUntilTheLastProcessHasEnded) {
  const fs::path path = folder / "r.db";
  auto first = std::make_unique<RunLock>(path), second = std::make_unique<RunLock>(path);
  first->begin();
  second->join_in();
  for (auto* one : {&first, &second}) {
    RunLock other(path);
    expect_error([&] { other.begin(); }, {"r.db: another run", "end it"}, ErrorCode::environment);
    one->reset();
  }
  EXPECT_TRUE(names().empty());
  write_bytes(path.string() + ".lock", "");  // of a run that was killed
  RunLock next(path);
  next.begin();
}

TEST_F(OverRanksTest, AMissingFolderIsNamed) {
  on_ranks(2, [&](ThreadRanks& ranks) {
    expect_error([&] { run_study_over(ranks, tiny(), store(ranks, 2), {}, one_thread()); },
                 {"cannot write", "/a/r.db: No such file"}, ErrorCode::environment);
  });
}

TEST_F(OverRanksTest, APartThatDoesNotFitIsNamedAndStays) {
  make_machines();
  leave_part("a", 0, 1);
  fs::copy_file(part("a", 0), part("b", 3));
  {
    Store damaged = Store::open_to_write(part("b", 3));
    std::vector<CellRow> rows = damaged.rows();
    rows[0].outputs = replaced(rows[0].outputs, "\"outcome\":\"solved\"", "\"outcome\":\"stalled\"");
    damaged.put({}, rows);
  }
  on_ranks(2, [&](ThreadRanks& ranks) {
    expect_error([&] { run_study_over(ranks, tiny(), store(ranks, 1), {}, one_thread()); },
                 {"b/r.db.rank-3 on ", "cannot be merged and stays", "different values"},
                 ErrorCode::environment);
  });
  EXPECT_FALSE(files("a").contains("r.db.received"));
  EXPECT_TRUE(fs::exists(part("b", 3)));
}

}  // namespace headlens::test

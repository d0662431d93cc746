// Stores that are new, foreign, damaged, newer, read-only or on a full disk; claims of the living and the
// dead.
#include "study/store.hpp"

#include <SQLiteCpp/SQLiteCpp.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>

#include "studies.hpp"
#include "study/grid.hpp"
#include "study/json_values.hpp"
#include "study/process.hpp"

namespace headlens::test {
namespace {

namespace fs = std::filesystem;

class StoreTest : public FolderTest {
 protected:
  fs::path path = folder / "results.db";
  std::vector<StudyCell> cells = make_cells(tiny());
  std::vector<std::size_t> all = [this] {
    std::vector<std::size_t> indices(cells.size());
    std::iota(indices.begin(), indices.end(), std::size_t{0});
    return indices;
  }();

  std::optional<std::size_t> claim(Store& store, bool retry_failed = false) {
    return store.claim(StudyCommand::fit, cells, all, retry_failed).index;
  }
  StudyCell loaded(std::size_t index) {
    StudyCell cell = cells[index];
    Store::open_to_read(path).load(StudyCommand::fit, cell);
    return cell;
  }
  void finish(Store& store, std::size_t index, CellStatus status) {
    StudyCell cell = cells[index];
    cell.status = status;
    cell.outputs = {
        {"nmse", 0.1}, {"worst", std::numeric_limits<double>::infinity()}, {"n", std::int64_t{3}}};
    cell.error = status == CellStatus::failed ? "why" : "";
    cell.peak_bytes = 12;
    store.finish(cell);
  }
  void execute(const std::string& sql) { SQLite::Database(path.string(), SQLite::OPEN_READWRITE).exec(sql); }

  void expect_refused(std::initializer_list<std::string> fragments, ErrorCode code) {
    const std::string before = read_bytes(path);
    expect_error([&] { Store::open_to_write(path); }, fragments, code);
    expect_error([&] { Store::open_to_read(path); }, fragments, code);
    EXPECT_EQ(read_bytes(path), before) << "the file was touched";
  }
};

// Runs `act` in a child, as nobody if we are root; its exit status.
int in_child(const std::function<void()>& act) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      act();
      _exit(0);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      _exit(1);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

TEST_F(StoreTest, KeepsStudiesInOrderAndUpdatesThem) {
  Store store = Store::open_to_write(path);
  store.put_study({"b", "text", "line"});
  store.put_study({"a", "text", "line"});
  store.put_study({"b", "new", "other"});
  const auto found = Store::open_to_read(path).studies();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].name, "b");
  EXPECT_EQ(found[0].source, "new");
  EXPECT_EQ(found[0].command_line, "other");
}

TEST_F(StoreTest, RemembersResults) {
  Store store = Store::open_to_write(path);
  EXPECT_EQ(claim(store), 0U);
  EXPECT_EQ(loaded(0).status, CellStatus::running);
  finish(store, 0, CellStatus::done);
  const StudyCell cell = loaded(0);
  EXPECT_EQ(cell.status, CellStatus::done);
  EXPECT_EQ(cell.outputs,
            (StudyValues{
                {"nmse", 0.1}, {"worst", std::numeric_limits<double>::infinity()}, {"n", std::int64_t{3}}}));
  EXPECT_EQ(cell.peak_bytes, 12U);
  EXPECT_FALSE(cell.finished.empty());
  EXPECT_EQ(loaded(1).status, CellStatus::missing);
  ASSERT_EQ(store.rows().size(), 1U);
  EXPECT_EQ(store.rows()[0].key, cells[0].key);
}

TEST_F(StoreTest, ClaimsAreTakenOnce) {
  Store store = Store::open_to_write(path), other = Store::open_to_write(path);
  EXPECT_EQ(claim(store), 0U);
  EXPECT_EQ(claim(other), 1U);
  finish(store, 0, CellStatus::done);
  finish(other, 1, CellStatus::failed);
  const Store::Claim next = store.claim(StudyCommand::fit, cells, all, false);
  EXPECT_EQ(next.index, 2U);
  EXPECT_EQ(next.settled, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(claim(store, true), 1U);  // --retry-failed
  store.release(cells[2].key);
  EXPECT_EQ(claim(store), 2U);
}

TEST_F(StoreTest, ADoneCellStaysDone) {
  Store store = Store::open_to_write(path);
  claim(store);
  finish(store, 0, CellStatus::done);
  finish(store, 0, CellStatus::failed);
  store.release(cells[0].key);
  EXPECT_EQ(loaded(0).status, CellStatus::done);
}

TEST_F(StoreTest, ClaimsOfDeadProcessesAreTakenOver) {
  { Store::open_to_write(path); }
  EXPECT_EQ(in_child([&] {
              Store store = Store::open_to_write(path);
              claim(store);
            }),
            0);
  EXPECT_EQ(loaded(0).status, CellStatus::missing);
  Store store = Store::open_to_write(path);
  EXPECT_EQ(claim(store), 0U);
}

TEST(Process, AliveAndDead) {
  const std::string mine = this_process();
  EXPECT_TRUE(is_alive(mine));
  const auto first = mine.find(' '), last = mine.rfind(' ');
  EXPECT_FALSE(is_alive("another-boot" + mine.substr(first)));
  EXPECT_FALSE(is_alive(mine.substr(0, last) + " 1"));             // the number was given to another process
  EXPECT_FALSE(is_alive(mine.substr(0, first) + " 999999999 1"));  // no such process
  EXPECT_FALSE(is_alive(mine.substr(0, first) + " ../self 1"));
  EXPECT_FALSE(is_alive(""));
}

TEST_F(StoreTest, NewerVersion) {
  { Store::open_to_write(path); }
  execute("PRAGMA user_version = 3");
  expect_refused({"was written by a newer headlens: store version 3"}, ErrorCode::misuse);
}

TEST_F(StoreTest, OtherFiles) {
  write_bytes(path, "samples,nmse\n" + std::string(4096, 'x'));
  expect_refused({"is not a study store: it is not an SQLite file"}, ErrorCode::environment);
  fs::remove(path);
  SQLite::Database(path.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE).exec("CREATE TABLE mine(x)");
  expect_refused({"is an SQLite file of another program"}, ErrorCode::misuse);
}

TEST_F(StoreTest, MissingEmptyAndFolder) {
  expect_error([&] { Store::open_to_read(path); }, {"cannot read", "no such file"}, ErrorCode::environment);
  write_bytes(path, "");
  expect_error([&] { Store::open_to_read(path); }, {"is empty"});
  expect_error([&] { Store::open_to_read(folder); }, {"it is a folder"}, ErrorCode::environment);
  expect_error([&] { Store::open_to_write(folder); }, {"cannot use"}, ErrorCode::environment);
  expect_error([&] { Store::open_to_write(folder / "no" / "x.db"); }, {"cannot use"}, ErrorCode::environment);
}

TEST_F(StoreTest, DamagedPagesAreNoticed) {
  {
    Store store = Store::open_to_write(path);
    for (int i = 0; i < 400; ++i) store.put_study({"s" + std::to_string(i), std::string(500, 'x'), ""});
  }
  std::string bytes = read_bytes(path);
  ASSERT_GT(bytes.size(), 40000U);
  for (std::size_t at = 20000; at < 30000; ++at) bytes[at] = static_cast<char>(at * 7);
  write_bytes(path, bytes);
  expect_refused({"is damaged"}, ErrorCode::environment);
  write_bytes(path, bytes.substr(0, 15000));
  expect_refused({"is damaged"}, ErrorCode::environment);
}

TEST_F(StoreTest, ReadOnlyIsReadAndNotWritten) {
  {
    Store store = Store::open_to_write(path);
    claim(store);
    finish(store, 0, CellStatus::done);
  }
  fs::permissions(path, fs::perms(0444));
  fs::permissions(folder, fs::perms(0555));
  EXPECT_EQ(in_child([&] {
              if (getuid() == 0) require(setuid(65534) == 0, "setuid");
              require(loaded(0).status == CellStatus::done, "not read");
              expect_error([&] { Store::open_to_write(path); }, {"cannot write", "read-only"},
                           ErrorCode::environment);
              require(!::testing::Test::HasFailure(), "not refused");
            }),
            0);
  fs::permissions(folder, fs::perms(0755));
}

TEST_F(StoreTest, AFullDiskFailsTheWriteAndKeepsTheRest) {
  EXPECT_EQ(in_child([&] {
              std::signal(SIGXFSZ, SIG_IGN);
              Store store = Store::open_to_write(path);
              claim(store);
              finish(store, 0, CellStatus::done);
              const rlimit limit{100000, 100000};
              setrlimit(RLIMIT_FSIZE, &limit);
              expect_error(
                  [&] {
                    for (int i = 0; i < 1000; ++i)
                      store.put_study({std::to_string(i), std::string(1000, 'x'), ""});
                  },
                  {"results.db"}, ErrorCode::environment);
              require(!::testing::Test::HasFailure(), "no error");
            }),
            0);
  EXPECT_EQ(loaded(0).status, CellStatus::done);
  Store store = Store::open_to_write(path);
  EXPECT_EQ(claim(store), 1U);
}

}  // namespace headlens::test

// Parts of a study on many machines, and one store of them.
#include <SQLiteCpp/SQLiteCpp.h>

#include <random>

#include "studies.hpp"
#include "study/file_system.hpp"
#include "study/grid.hpp"
#include "study/store.hpp"

namespace headlens::test {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kNfs = 0x6969;

class MergeTest : public FolderTest {
 protected:
  std::vector<fs::path> run_parts(int parts) {
    std::vector<fs::path> stores;
    for (int i = 1; i <= parts; ++i) {
      const std::string shard = std::to_string(i) + "/" + std::to_string(parts);
      stores.push_back(folder / ("part-" + std::to_string(i) + ".db"));
      run_study(tiny(), stores.back(), {.shard = shard}, one_thread());
    }
    return stores;
  }
  void execute(const fs::path& store, const std::string& sql) {
    SQLite::Database(store.string(), SQLite::OPEN_READWRITE).exec(sql);
  }
};

// Of every cell what is computed, without times.
std::vector<std::string> values(const fs::path& store) {
  std::vector<std::string> out;
  for (const StudyCell& cell : read_results(store, tiny()).cells) {
    std::string line = cell.key + " " + name(cell.status);
    for (const auto& [quantity, value] : cell.outputs)
      if (!quantity.ends_with("seconds")) line += " " + text(value);
    out.push_back(line);
  }
  return out;
}

}  // namespace

TEST_F(MergeTest, PartsAreDisjointAndTogetherEverything) {
  for (const int parts : {1, 3, 7, 12}) {
    Index cells = 0;
    std::set<std::string> keys;
    for (const fs::path& store : run_parts(parts)) {
      for (const CellRow& row : Store::open_to_read(store).rows()) ++cells, keys.insert(row.key);
      fs::remove(store);
    }
    EXPECT_EQ(cells, 10) << parts;
    EXPECT_EQ(keys.size(), 10U) << parts;
  }
}

TEST_F(MergeTest, TheMergedStoreIsThatOfOneRun) {
  run_study(tiny(), folder / "one.db", {}, one_thread());
  const std::vector<fs::path> stores = run_parts(3);
  const MergeSummary first = merge_studies(stores, folder / "all.db", "as typed");
  EXPECT_EQ(first.cells, 10);
  EXPECT_EQ(first.added, 10);
  EXPECT_EQ(values(folder / "all.db"), values(folder / "one.db"));
  EXPECT_EQ(read_results(folder / "all.db").at(0).command_line, "as typed");
  const MergeSummary again = merge_studies({stores[2], stores[0]}, folder / "all.db", "as typed");
  EXPECT_EQ(again.cells, 10);
  EXPECT_EQ(again.added, 0);
  EXPECT_EQ(values(folder / "all.db"), values(folder / "one.db"));
  // Another division, and a whole run, have the same cells.
  EXPECT_EQ(merge_studies({folder / "one.db"}, folder / "all.db", "").added, 0);
}

TEST_F(MergeTest, FinishedBeatsFailedAndRunningIsLeftOut) {
  const std::vector<fs::path> stores = run_parts(2);
  fs::copy_file(stores[0], folder / "failed.db");
  {
    Store store = Store::open_to_write(folder / "failed.db");
    std::vector<CellRow> rows = store.rows();
    for (CellRow& row : rows) row.status = "failed", row.outputs = "{}", row.error = "why";
    rows[0].status = "running";
    store.put({}, rows);
  }
  EXPECT_EQ(merge_studies({folder / "failed.db"}, folder / "all.db", "").failed, 4);
  EXPECT_EQ(Store::open_to_read(folder / "all.db").rows().size(), 4U);
  EXPECT_EQ(merge_studies(stores, folder / "all.db", "").failed, 0);
  EXPECT_EQ(merge_studies({folder / "failed.db"}, folder / "all.db", "").failed, 0);
}

TEST_F(MergeTest, DifferentValuesAreRefusedAsAWhole) {
  const std::vector<fs::path> stores = run_parts(2);
  fs::copy_file(stores[0], folder / "other.db");
  {
    Store store = Store::open_to_write(folder / "other.db");
    std::vector<CellRow> rows = store.rows();
    rows[2].outputs = replaced(rows[2].outputs, "\"outcome\":\"solved\"", "\"outcome\":\"stalled\"");
    store.put({}, rows);
  }
  merge_studies({stores[0]}, folder / "all.db", "");
  const auto before = values(folder / "all.db");
  const auto merge = [&] { merge_studies({stores[1], folder / "other.db"}, folder / "all.db", ""); };
  expect_error(merge, {"other.db and ", "all.db have different values for the cell"}, ErrorCode::environment);
  EXPECT_EQ(values(folder / "all.db"), before);
}

TEST_F(MergeTest, DifferentStudiesOfOneNameAreRefused) {
  run_study(tiny(), folder / "a.db", {}, one_thread());
  const Study more = parse_study(replaced(tiny_text, "[5, 10", "[7, 10"), "s");
  run_study(more, folder / "b.db", {}, one_thread());
  expect_error(
      [&] {
        merge_studies({folder / "a.db", folder / "b.db"}, folder / "all.db", "");
      },
      {"hold different studies of the name 'tiny'"}, ErrorCode::misuse);
}

TEST_F(MergeTest, BadShardsAreRefused) {
  for (const char* shard : {"0/3", "4/3", "1", "1/", "/3", "a/b", "1/3x", "-1/3", "1/0"})
    expect_error([&] { run_study(tiny(), folder / "a.db", {.shard = shard}, one_thread()); },
                 {"shard: '", "expected I/N with 1 <= I <= N"}, ErrorCode::misuse);
}

TEST(FileSystem, NamesThoseOfSeveralMachines) {
  EXPECT_EQ(network_file_system(kNfs), "NFS");
  EXPECT_EQ(network_file_system(0x0bd00bd0), "Lustre");
  EXPECT_EQ(network_file_system(0xff534d42), "SMB");
  EXPECT_EQ(network_file_system(0xfe534d42), "SMB");
  for (const std::uint64_t local : {0xef53U, 0x58465342U, 0x01021994U, 0x794c7630U, 0x9123683eU})
    EXPECT_EQ(network_file_system(local), std::nullopt);  // ext4, XFS, tmpfs, overlay, Btrfs
}

TEST_F(MergeTest, StoresOnNetworkFileSystemsAreReadButNotWritten) {
  const std::vector<fs::path> stores = run_parts(2);
  const auto before = values(stores[0]);
  {
    const FileSystemReplacement nfs(kNfs);
    expect_error([&] { run_study(tiny(), stores[0], {}, one_thread()); },
                 {"cannot write ", "lies on NFS", "study merge"}, ErrorCode::environment);
    expect_error([&] { run_study(tiny(), folder / "new.db", {}, one_thread()); }, {"lies on NFS"},
                 ErrorCode::environment);
    EXPECT_FALSE(fs::exists(folder / "new.db"));
    EXPECT_EQ(values(stores[0]), before);
    write_bytes(stores[0].string() + "-wal", "x");
    expect_error([&] { (void)read_results(stores[0]); }, {"with a log beside it", "copy both files"},
                 ErrorCode::environment);
  }
  fs::remove(stores[0].string() + "-wal");
  EXPECT_EQ(values(stores[0]), before);
}

}  // namespace headlens::test

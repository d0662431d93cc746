// Bits that turn over on the disk: the same results, or an error; never other results.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>

#include "base/random.hpp"
#include "studies.hpp"
#include "study/grid.hpp"
#include "study/store.hpp"

namespace headlens::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class StoreDamageTest : public FolderTest {
 protected:
  // Two studies and four of their cells: one done, one failed, one running, one done of the other study.
  StoreDamageTest() {
    Store store = Store::open_to_write(path);
    put(store, 0, CellStatus::done);
    put(store, 1, CellStatus::failed);
    put(store, 2, CellStatus::running);
    put(store, 3, CellStatus::done);
    store.put_study({"tiny", tiny_text, "headlens study run tiny.toml -o results.db"});
    store.put_study({"other", replaced(tiny_text, "\"tiny\"", "\"other\""), "headlens study run other.toml"});
  }

  void put(Store& store, std::size_t index, CellStatus status) {
    StudyCell cell = cells[index];
    ASSERT_TRUE(store.claim(StudyCommand::fit, cells, {index}, false).index);
    if (status == CellStatus::running) return;
    cell.status = status;
    if (status == CellStatus::done)
      cell.outputs = {{"outcome", "solved"}, {"nmse", 0.125}, {"fit-seconds", 0.5}};
    if (status == CellStatus::failed) cell.error = "3 GB needed, 1 GB may be used";
    cell.seconds = 0.25;
    cell.peak_bytes = 4096;
    cell.version = "0.1.0", cell.git_commit = "abc1234", cell.host = "here", cell.blas_core = "Haswell";
    store.finish(cell);
  }

  void execute(const std::string& sql) { SQLite::Database(path.string(), SQLite::OPEN_READWRITE).exec(sql); }

  // Everything that `study export`, `study status` and `report` show of the store.
  std::string shown() const {
    std::string text;
    for (const StudyResults& results : read_results(path))
      text += results.study.source + results.command_line + export_results(results, ExportFormat::csv) +
              export_results(results, ExportFormat::json);
    return text + std::to_string(count_other_cells(path));
  }

  std::string message() const {
    try {
      static_cast<void>(shown());
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  // As a store of version 1 was.
  void forget_checksums() {
    execute(
        "ALTER TABLE cell DROP COLUMN checksum; ALTER TABLE study DROP COLUMN checksum; PRAGMA user_version "
        "= 1");
  }

  fs::path path = folder / "results.db";
  std::vector<StudyCell> cells = make_cells(tiny());
};

}  // namespace

TEST_F(StoreDamageTest, AFlippedBitChangesNoResult) {
  const std::string expected = shown();
  execute("PRAGMA journal_mode = DELETE; PRAGMA page_size = 512; VACUUM; PRAGMA journal_mode = WAL");
  ASSERT_EQ(shown(), expected);
  const std::string bytes = read_bytes(path);
  Stream random(1, "flips", 0);
  // HEADLENS_ALL_FLIPS=1 takes a minute or two.
  const std::size_t every = std::getenv("HEADLENS_ALL_FLIPS") ? 1 : 40;
  int same = 0, refused = 0;
  for (std::size_t bit = 0; bit < 8 * bytes.size(); bit += every) {
    const std::size_t at = every == 1 ? bit : bit + static_cast<std::size_t>(random.uniform() * every);
    std::string damaged = bytes;
    damaged[at / 8] = static_cast<char>(damaged[at / 8] ^ (1 << (at % 8)));
    write_bytes(path, damaged);
    try {
      ASSERT_EQ(shown(), expected) << "bit " << at;
      ++same;
    } catch (const Error& error) {
      ASSERT_THAT(error.what(), HasSubstr("results.db")) << "bit " << at;
      ++refused;
    }
  }
  EXPECT_GT(refused, same / 2);  // most of the file is data
}

TEST_F(StoreDamageTest, EveryColumnIsCovered) {
  const std::string expected = shown(), bytes = read_bytes(path);
  const std::string cell = "WHERE key = '" + cells[0].key + "'";
  for (const std::string& change :
       {"UPDATE cell SET outputs = replace(outputs, '0.125', '0.127') " + cell,
        "UPDATE cell SET status = 'failed' " + cell, "UPDATE cell SET error = 'none' " + cell,
        "UPDATE cell SET seconds = 0.75 " + cell, "UPDATE cell SET predicted_peak_bytes = 1 " + cell,
        "UPDATE cell SET version = '0.1.1' " + cell, "UPDATE cell SET git_commit = '' " + cell,
        "UPDATE cell SET host = 'there' " + cell, "UPDATE cell SET blas_core = 'Zen' " + cell,
        "UPDATE cell SET finished = '' " + cell, "UPDATE cell SET inputs = '{}' " + cell,
        "UPDATE cell SET seed = '2' " + cell, "UPDATE cell SET command = 'recover' " + cell}) {
    write_bytes(path, bytes);
    execute(change);
    EXPECT_THAT(message(), testing::AllOf(HasSubstr("cell " + cells[0].key), HasSubstr("samples = 5"),
                                          HasSubstr("seed 1"), HasSubstr("study run")))
        << change;
  }
  for (const std::string change :
       {"UPDATE study SET source = replace(source, 'nmse', 'residual') WHERE name = 'tiny'",
        "UPDATE study SET command_line = '' WHERE name = 'tiny'",
        "UPDATE study SET updated = '' WHERE name = 'tiny'"}) {
    write_bytes(path, bytes);
    execute(change);
    EXPECT_THAT(message(), testing::AllOf(HasSubstr("study 'tiny'"), HasSubstr("writes the row anew")))
        << change;
  }
  Store::open_to_write(path).put_study({"tiny", tiny_text, "headlens study run tiny.toml -o results.db"});
  EXPECT_EQ(shown(), expected);  // as the message said
}

TEST_F(StoreDamageTest, AClaimIsCovered) {
  execute("UPDATE cell SET claim = 'nobody' WHERE status = 'running'");  // would make it look missing
  EXPECT_THAT(message(), HasSubstr("cell " + cells[2].key));
}

TEST_F(StoreDamageTest, ADamagedRowCanBeRemovedAndRunAgain) {
  execute("UPDATE cell SET outputs = '[1' WHERE key = '" + cells[0].key + "'");
  execute("DELETE FROM cell WHERE key = '" + cells[0].key + "'");
  Store store = Store::open_to_write(path);
  put(store, 0, CellStatus::done);
  EXPECT_EQ(message(), "");
}

TEST_F(StoreDamageTest, StoresWithoutChecksumsAreReadAsTheyAre) {
  const std::string expected = shown();
  forget_checksums();
  EXPECT_EQ(shown(), expected);
  execute("UPDATE cell SET host = 'there' WHERE key = '" + cells[0].key + "'");
  EXPECT_EQ(message(), "");
  execute("UPDATE cell SET outputs = '[1' WHERE key = '" + cells[0].key + "'");
  EXPECT_THAT(message(), HasSubstr("is damaged"));
}

TEST_F(StoreDamageTest, WritingAddsChecksums) {
  const std::string expected = shown();
  forget_checksums();
  { Store::open_to_write(path); }
  EXPECT_EQ(shown(), expected);
  execute("UPDATE cell SET host = 'there' WHERE key = '" + cells[0].key + "'");
  EXPECT_THAT(message(), HasSubstr("cell " + cells[0].key));
}

}  // namespace headlens::test

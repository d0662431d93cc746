// Sums that survive a kill: bit for bit, of the same fit only, whole only.
#include "io/checkpoint.hpp"

#include <thread>

#include "headlens/files.hpp"
#include "io/files.hpp"

namespace headlens::test {
namespace {

class CheckpointTest : public FolderTest {
 protected:
  std::filesystem::path place = folder / "sums";
  std::vector<double> numbers{1.5, -2.25, 1e-300};
  std::vector<float> more{3.0F};

  io::Checkpoint open(const std::string& identity = "fit a") {
    return {place,
            io::checkpoint_name(1, 4) + "gram",
            identity,
            {std::as_writable_bytes(std::span(numbers)), std::as_writable_bytes(std::span(more))}};
  }
  std::filesystem::path file() const { return place / "rank-1-of-4-gram.checkpoint"; }
  void keep(Index row) {
    io::Checkpoint kept = open();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    kept.reached(row);
  }
};

TEST_F(CheckpointTest, BringsBackWhatWasKept) {
  EXPECT_EQ(open().resume(), 0);
  open().reached(10);  // too early
  EXPECT_FALSE(std::filesystem::exists(file()));
  keep(4096);
  const std::vector<double> before = numbers;
  numbers = {0, 0, 0};
  more = {0};
  EXPECT_EQ(open().resume(), 4096);
  EXPECT_EQ(numbers, before);
  EXPECT_EQ(more[0], 3.0F);
  expect_error([&] { open("fit b").resume(); }, {"belongs to another fit (fit a), not to this one (fit b)"});
  const std::string whole = read_bytes(file());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string bad = whole;
    bad[i] = static_cast<char>(bad[i] ^ 4);
    write_bytes(file(), bad);
    EXPECT_THROW(open().resume(), Error) << i;
    write_bytes(file(), whole.substr(0, i));
    EXPECT_THROW(open().resume(), Error) << i;
  }
  remove_checkpoints(place, 0, 4);
  EXPECT_TRUE(std::filesystem::exists(file()));
  remove_checkpoints(place, 1, 4);
  EXPECT_FALSE(std::filesystem::exists(place));
}

TEST_F(CheckpointTest, NoFolderNoFile) {
  io::Checkpoint nowhere("", "gram", "", {});
  EXPECT_EQ(nowhere.resume(), 0);
  nowhere.reached(1);
}

}  // namespace
}  // namespace headlens::test

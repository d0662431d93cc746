// Files that cannot be opened, and files with nothing in them.
#include <sys/stat.h>

#include "files.hpp"
#include "headlens/arrays.hpp"

namespace headlens::test {
namespace {

const std::vector<std::function<void(const std::filesystem::path&)>> readers = {
    [](const auto& path) { read_npy(path); },
    [](const auto& path) { read_npz(path); },
    [](const auto& path) { read_safetensors(path); },
};

const std::vector<std::function<void(const std::filesystem::path&)>> writers = {
    [](const auto& path) { write_npy(path, counting<double>({1000})); },
    [](const auto& path) {
      write_npz(path, {{"a", counting<double>({1000})}});
    },
    [](const auto& path) {
      write_safetensors(path, {.tensors = {{"a", counting<double>({1000})}}, .metadata = {}});
    },
};

}  // namespace

class MissingFileTest : public FolderTest {};

TEST_F(MissingFileTest, Missing) {
  const auto path = folder / "no.npz";
  for (const auto& read : readers)
    expect_error([&] { read(path); }, {"cannot open " + path.string() + ": No such file or directory"},
                 ErrorCode::environment);
}

TEST_F(MissingFileTest, Directory) {
  for (const auto& read : readers)
    expect_error([&] { read(folder); }, {"cannot open " + folder.string(), "directory"},
                 ErrorCode::environment);
}

TEST_F(MissingFileTest, PipeDoesNotHang) {
  const auto path = folder / "fifo";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  for (const auto& read : readers)
    expect_error([&] { read(path); }, {path.string(), "not a regular file"}, ErrorCode::environment);
}

TEST_F(MissingFileTest, Empty) {
  const auto path = folder / "empty";
  write_bytes(path, "");
  for (const auto& read : readers) expect_error([&] { read(path); }, {path.string() + ": ", "empty"});
}

TEST_F(MissingFileTest, UnreadableFile) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read anything";
  const auto path = folder / "secret";
  write_bytes(path, "text");
  std::filesystem::permissions(path, std::filesystem::perms(0));
  for (const auto& read : readers)
    expect_error([&] { read(path); }, {"Permission denied"}, ErrorCode::environment);
}

TEST_F(MissingFileTest, FullDiskOnWriting) {
  for (const auto& write : writers)
    expect_error([&] { write("/dev/full"); }, {"cannot write /dev/full: No space left on device"},
                 ErrorCode::environment);
}

TEST_F(MissingFileTest, MissingFolderOnWriting) {
  for (const auto& write : writers)
    expect_error([&] { write(folder / "no" / "a"); }, {"cannot write", "the folder", "does not exist"},
                 ErrorCode::environment);
}

}  // namespace headlens::test

// Several files appear together or not at all, and what can be said of a file before it is written.
#include "headlens/files.hpp"

#include <sys/stat.h>

#include "files.hpp"
#include "headlens/arrays.hpp"

namespace headlens::test {
namespace fs = std::filesystem;

class FileGroupTest : public FolderTest {};

TEST_F(FileGroupTest, FilesAppearAtCommit) {
  FileGroup together;
  write_text(folder / "a", "one");
  write_text(folder / "b", "two");
  EXPECT_FALSE(fs::exists(folder / "a") || fs::exists(folder / "b"));
  together.commit();
  EXPECT_EQ(read_bytes(folder / "a"), "one");
  EXPECT_EQ(read_bytes(folder / "b"), "two");
}

TEST_F(FileGroupTest, NoneAppearsWithoutCommit) {
  write_text(folder / "a", "old");
  {
    FileGroup together;
    write_text(folder / "a", "new");
    EXPECT_THROW(write_text("/dev/full", "two"), Error);
  }
  EXPECT_EQ(read_bytes(folder / "a"), "old");
  EXPECT_EQ(names(), std::vector<std::string>{"a"});
  write_text(folder / "a", "new");  // no group any more
  EXPECT_EQ(read_bytes(folder / "a"), "new");
}

TEST_F(FileGroupTest, OneFileUnderTwoNames) {
  write_text(folder / "a", "text");
  fs::create_hard_link(folder / "a", folder / "hard");
  fs::create_symlink("a", folder / "soft");
  fs::create_symlink("none", folder / "dangling");
  EXPECT_TRUE(same_file(folder / "a", folder / "." / "a"));
  EXPECT_TRUE(same_file(folder / "a", folder / "hard"));
  EXPECT_TRUE(same_file(folder / "a", folder / "soft"));
  EXPECT_TRUE(same_file(folder / "dangling", folder / "none"));
  EXPECT_FALSE(same_file(folder / "a", folder / "none"));
  EXPECT_FALSE(same_file("/dev/null", "/dev/null"));
}

TEST_F(FileGroupTest, ACircleOfLinksIsNoFile) {
  fs::create_symlink("y", folder / "x");
  fs::create_symlink("x", folder / "y");
  EXPECT_FALSE(same_file(folder / "x", folder / "z"));
  EXPECT_THROW(check_writable(folder / "x"), Error);
}

TEST_F(FileGroupTest, WhetherAFileCanBeWritten) {
  check_writable(folder / "new");
  check_writable("/dev/null");
  EXPECT_TRUE(names().empty());
  EXPECT_THROW(check_writable(folder), Error);
  EXPECT_THROW(check_writable(folder / "none" / "new"), Error);
  write_text(folder / "a", "text");
  check_writable(folder / "a");
  EXPECT_EQ(read_bytes(folder / "a"), "text");
  EXPECT_THROW(check_writable(folder / "a" / "new"), Error);
}

}  // namespace headlens::test

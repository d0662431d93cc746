// A file appears under its name whole or not at all.
#include "io/atomic_file.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <thread>

#include "files.hpp"

namespace headlens::test {
namespace fs = std::filesystem;
using io::AtomicFile;

class AtomicFileTest : public FolderTest {
 protected:
  static void write(const fs::path& path, const std::string& bytes) {
    AtomicFile file(path);
    file.write(bytes);
    file.commit();
  }
  void expect_only(const std::string& name) const { EXPECT_EQ(names(), std::vector<std::string>{name}); }
};

TEST_F(AtomicFileTest, AppearsOnCommit) {
  const fs::path path = folder / "a";
  AtomicFile file(path);
  file.write("one ");
  file.write("two");
  EXPECT_FALSE(fs::exists(path));
  file.commit();
  EXPECT_EQ(read_bytes(path), "one two");
  expect_only("a");
}

TEST_F(AtomicFileTest, KeepsTheOldFileWithoutCommit) {
  write(folder / "a", "old");
  {
    AtomicFile file(folder / "a");
    file.write("new");
  }
  EXPECT_EQ(read_bytes(folder / "a"), "old");
  expect_only("a");
}

TEST_F(AtomicFileTest, ReplacesTheOldFile) {
  write(folder / "a", "a long old text");
  write(folder / "a", "new");
  EXPECT_EQ(read_bytes(folder / "a"), "new");
  expect_only("a");
}

TEST_F(AtomicFileTest, TwoWritersDoNotMix) {
  AtomicFile first(folder / "a");
  AtomicFile second(folder / "a");
  first.write("first");
  second.write("second");
  second.commit();
  first.commit();
  EXPECT_EQ(read_bytes(folder / "a"), "first");
  expect_only("a");
}

TEST_F(AtomicFileTest, LeftoversOfAKilledProcessDoNotMatter) {
  for (int i = 0; i < 100; ++i)
    write_bytes(folder / (".a.tmp-" + std::to_string(::getpid()) + "-" + std::to_string(i)), "stale");
  write(folder / "a", "new");
  EXPECT_EQ(read_bytes(folder / "a"), "new");
}

TEST_F(AtomicFileTest, RespectsTheUmaskAndKeepsAnExistingMode) {
  const auto mode = [](const fs::path& path) { return fs::status(path).permissions(); };
  const mode_t before = ::umask(027);
  write(folder / "a", "text");
  ::umask(before);
  EXPECT_EQ(mode(folder / "a"), fs::perms(0640));
  fs::permissions(folder / "a", fs::perms(0600));
  write(folder / "a", "text");
  EXPECT_EQ(mode(folder / "a"), fs::perms(0600));
}

TEST_F(AtomicFileTest, LongestNameStillHasATemporary) {
  const std::string name(255, 'x');
  write(folder / name, "text");
  expect_only(name);
}

TEST_F(AtomicFileTest, FollowsLinks) {
  fs::create_directory(folder / "real");
  fs::create_symlink("real/target", folder / "relative");
  fs::create_symlink(folder / "relative", folder / "absolute");
  write(folder / "absolute", "made");
  EXPECT_TRUE(fs::is_symlink(folder / "absolute"));
  EXPECT_TRUE(fs::is_symlink(folder / "relative"));
  EXPECT_EQ(read_bytes(folder / "real" / "target"), "made");
  write(folder / "relative", "again");
  EXPECT_EQ(read_bytes(folder / "real" / "target"), "again");
}

TEST_F(AtomicFileTest, LinkCycleIsAnError) {
  fs::create_symlink("b", folder / "a");
  fs::create_symlink("a", folder / "b");
  expect_error([&] { AtomicFile file(folder / "a"); }, {"cannot write", "Too many levels"},
               ErrorCode::environment);
}

TEST_F(AtomicFileTest, WritesDevicesDirectly) {
  write("/dev/null", "text");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(AtomicFileTest, WritesFifosDirectly) {
  const fs::path path = folder / "fifo";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::string received;
  std::jthread reader([&] { received = read_bytes(path); });
  write(path, "text");
  reader.join();
  EXPECT_EQ(received, "text");
  EXPECT_TRUE(fs::is_fifo(path));
}

TEST_F(AtomicFileTest, WritesOpenDescriptorsDirectly) {
  const io::FileDescriptor held(::open((folder / "a").c_str(), O_RDWR | O_CREAT, 0600));
  write("/proc/self/fd/" + std::to_string(held.number()), "text");
  char bytes[8] = {};
  EXPECT_EQ(::pread(held.number(), bytes, sizeof bytes, 0), 4);
  expect_only("a");
}

TEST_F(AtomicFileTest, FullDeviceIsAnError) {
  expect_error([] { write("/dev/full", "text"); }, {"cannot write /dev/full", "No space left on device"},
               ErrorCode::environment);
}

TEST_F(AtomicFileTest, FailureMidwayKeepsTheOldFile) {
  write(folder / "a", "old");
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small { 1000, before.rlim_max };
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string text;
  try {
    write(folder / "a", std::string(5000, 'x'));
  } catch (const Error& error) {
    text = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(text, "cannot write " + (folder / "a").string() + ": File too large");
  EXPECT_EQ(read_bytes(folder / "a"), "old");
  expect_only("a");
}

TEST_F(AtomicFileTest, ImpossibleTargetsAreErrors) {
  const auto open = [](const fs::path& path) { AtomicFile file(path); };
  write(folder / "a", "text");
  expect_error([&] { open(folder); }, {"cannot write " + folder.string(), "Is a directory"},
               ErrorCode::environment);
  expect_error([&] { open(folder / "no" / "a"); }, {"no/a", "the folder", "does not exist"},
               ErrorCode::environment);
  expect_error([&] { open(folder / "a" / "b"); }, {"a/b", "is not a folder"}, ErrorCode::environment);
  expect_error([&] { open(""); }, {"cannot write", "No such file or directory"}, ErrorCode::environment);
  expect_error([&] { open(folder / std::string(300, 'x')); }, {"File name too long"}, ErrorCode::environment);
  expect_only("a");
}

TEST_F(AtomicFileTest, PermissionsAreRespected) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write anywhere";
  write(folder / "a", "old");
  fs::permissions(folder / "a", fs::perms(0444));
  expect_error([&] { write(folder / "a", "new"); }, {"Permission denied"}, ErrorCode::environment);
  fs::permissions(folder, fs::perms(0555));
  expect_error([&] { write(folder / "b", "new"); }, {"Permission denied"}, ErrorCode::environment);
  fs::permissions(folder, fs::perms(0755));
  EXPECT_EQ(read_bytes(folder / "a"), "old");
}

TEST_F(AtomicFileTest, ErrorsStayOnOneLine) {
  expect_error([&] { AtomicFile file(folder / "no" / "two\nlines"); }, {"two\\x0alines"},
               ErrorCode::environment);
}

}  // namespace headlens::test

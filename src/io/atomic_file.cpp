#include "io/atomic_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <system_error>

#include "headlens/error.hpp"
#include "headlens/files.hpp"
#include "io/printable.hpp"

namespace headlens::io {
namespace fs = std::filesystem;
namespace {

constexpr int kMostLinks = 40;  // as in the kernel; more are a circle

std::atomic<int> g_unfinished{0};
static_assert(std::atomic<int>::is_always_lock_free);  // a signal handler may read it

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

fs::path temporary_name(const fs::path& target) {
  static std::atomic<unsigned> counter{0};
  // File names end at 255 bytes; the temporary must fit wherever its target does.
  const std::string name = target.filename().string().substr(0, 200);
  return folder_of(target) / fmt::format(".{}.tmp-{}-{}", name, ::getpid(), counter++);
}

// Best effort: without it the rename may be undone by a power cut, which leaves the old file, still whole.
void flush_folder(const fs::path& folder) {
  const FileDescriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.is_open()) (void)::fsync(opened.number());
}

// The number in /dev/fd/3 or /proc/self/fd/3, links to it followed (/dev/stdout); -1 for other names.
int open_descriptor(fs::path path) {
  std::error_code ignored;
  for (int links = 0; links < kMostLinks; ++links) {
    const std::string text = path.string();
    for (const std::string prefix : {"/proc/self/fd/", "/dev/fd/"})
      if (text.starts_with(prefix)) {
        int number = -1;
        const auto [end, error] =
            std::from_chars(text.data() + prefix.size(), text.data() + text.size(), number);
        return error == std::errc() && end == text.data() + text.size() ? number : -1;
      }
    if (!fs::is_symlink(fs::symlink_status(path, ignored))) return -1;
    const fs::path next = fs::read_symlink(path, ignored);
    path = next.is_absolute() ? next : path.parent_path() / next;
  }
  return -1;
}

std::string why_not(const fs::path& folder, int system_error) {
  std::error_code ignored;
  if (system_error == ENOENT && !fs::exists(folder, ignored))
    return join("the folder ", printable(folder.string()), " does not exist");
  if (system_error == ENOTDIR) return join(printable(folder.string()), " is not a folder");
  return std::generic_category().message(system_error);
}

}  // namespace

fs::path follow_links(fs::path path) {
  for (int links = 0; links < kMostLinks; ++links) {
    const std::string text = path.string();
    if (text.starts_with("/proc/") || text.starts_with("/dev/fd/")) return {};
    std::error_code ignored;
    if (!fs::is_symlink(fs::symlink_status(path, ignored))) return path;
    const fs::path next = fs::read_symlink(path, ignored);
    if (ignored) return path;
    path = next.is_absolute() ? next : path.parent_path() / next;
  }
  return path;
}

void remove_temporary(const fs::path& temporary) {
  ::unlink(temporary.c_str());
  --g_unfinished;
}

void replace_file(const fs::path& temporary, const fs::path& target) {
  if (::rename(temporary.c_str(), target.c_str()) != 0)
    throw Error(ErrorCode::environment, fmt::format("cannot write {}: {}", printable(target.string()),
                                                    std::generic_category().message(errno)));
  --g_unfinished;
  flush_folder(folder_of(target));
}

AtomicFile::AtomicFile(const fs::path& target)
    : shown_(printable(target.string())), folder_(folder_of(target)) {
  struct stat status {};
  const bool exists = ::stat(target.c_str(), &status) == 0;
  if (!exists && errno != ENOENT) fail(errno);
  if (exists && S_ISDIR(status.st_mode)) fail(EISDIR);
  if (!exists || S_ISREG(status.st_mode)) final_ = follow_links(target);
  if (final_.empty()) {
    open_directly(target);
  } else {
    // A rename asks only the folder for permission; a file made read-only is meant to stay.
    if (exists && ::access(target.c_str(), W_OK) != 0) fail(errno);
    open_temporary();
    if (exists) (void)::fchmod(file_.number(), status.st_mode & 0777U);
  }
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) remove_temporary(temporary_);
}

void AtomicFile::open_directly(const fs::path& target) {
  // What is open already is written as it was opened: appended to, or a socket, which has no name to open.
  const int open = open_descriptor(target);
  file_ = FileDescriptor(open >= 0 ? ::fcntl(open, F_DUPFD_CLOEXEC, 0)
                                   : ::open(target.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
  if (!file_.is_open()) fail(errno);
}

void AtomicFile::open_temporary() {
  constexpr int attempts = 1000;  // each meets a leftover of a killed process with our number
  for (int attempt = 0; attempt < attempts && !file_.is_open(); ++attempt) {
    const fs::path name = temporary_name(final_);
    ++g_unfinished;  // before the file exists, so that no signal comes between
    file_ = FileDescriptor(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file_.is_open()) {
      temporary_ = name;
    } else {
      const int error = errno;
      --g_unfinished;
      if (error != EEXIST) fail(error);
    }
  }
  if (!file_.is_open()) fail(EEXIST);
}

void AtomicFile::write(const void* bytes, std::size_t size) {
  ensure(file_.is_open(), "AtomicFile: write after commit");
  constexpr std::size_t chunk_bytes = std::size_t{1} << 30;  // Linux writes less than 2 GiB at a time
  const char* next = static_cast<const char*>(bytes);
  while (size > 0) {
    const ::ssize_t done = ::write(file_.number(), next, std::min(size, chunk_bytes));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail(errno);
    next += done;
    size -= static_cast<std::size_t>(done);
  }
}

void AtomicFile::commit() {
  ensure(file_.is_open(), "AtomicFile: committed twice");
  if (final_.empty()) return close();
  if (::fsync(file_.number()) != 0) fail(errno);
  close();
  if (!FileGroup::take(temporary_, final_)) replace_file(temporary_, final_);
  temporary_.clear();
}

void AtomicFile::close() {
  // Network file systems may report a full disk only here.
  if (::close(file_.release()) != 0 && errno != EINTR) fail(errno);
}

void AtomicFile::fail(int system_error) const {
  throw Error(ErrorCode::environment,
              fmt::format("cannot write {}: {}", shown_, why_not(folder_, system_error)));
}

}  // namespace headlens::io

int headlens::unfinished_files() { return headlens::io::g_unfinished; }

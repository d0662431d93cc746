#include "study/run_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>

#include "headlens/error.hpp"
#include "io/printable.hpp"
#include "study/file_system.hpp"
#include "study/process.hpp"

namespace headlens {
namespace {

// Whether the open file still has this name: whoever held the lock before may have removed it.
bool has_name(int number, const std::filesystem::path& name) {
  struct stat held {};
  struct stat named {};
  return ::fstat(number, &held) == 0 && ::stat(name.c_str(), &named) == 0 && held.st_dev == named.st_dev &&
         held.st_ino == named.st_ino;
}

}  // namespace

RunLock::RunLock(const std::filesystem::path& store) : store_(store), file_(store.string() + ".lock") {}

RunLock::~RunLock() {
  if (!open_.is_open()) return;
  const bool last = ::flock(open_.number(), LOCK_EX | LOCK_NB) == 0;
  if (last && has_name(open_.number(), file_)) ::unlink(file_.c_str());
}

void RunLock::begin() {
  take(LOCK_EX);
  // For a moment the lock is free: should another run take it, this one has not touched anything yet.
  if (::flock(open_.number(), LOCK_SH | LOCK_NB) != 0) refuse(errno);
}

void RunLock::join_in() { take(LOCK_SH); }

void RunLock::take(int kind) {
  require_own_disk(store_);
  do {
    open_ = io::FileDescriptor(::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (!open_.is_open()) refuse(errno);
    if (::flock(open_.number(), kind | LOCK_NB) != 0) refuse(errno);
  } while (!has_name(open_.number(), file_));
}

void RunLock::refuse(int system_error) {
  open_ = io::FileDescriptor();
  const std::string store = io::printable(store_.string());
  if (system_error == EWOULDBLOCK)
    throw Error(ErrorCode::environment,
                join(store, ": another run over ranks is at work on it on ", host_name(), " and holds ",
                     io::printable(file_.string()), ": wait until that run has ended, or end it"));
  throw Error(ErrorCode::environment,
              join("cannot write ", store, ": ", std::generic_category().message(system_error)));
}

}  // namespace headlens

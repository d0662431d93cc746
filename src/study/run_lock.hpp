// One run over ranks at a time may work on a store, and on the parts that ranks fill beside it.
//
// Every process of a run holds a shared lock (flock) of RESULTS.db.lock in the folder of its part, so one
// file per machine, from before the first part is read until the last one is gone. The first process there
// asks for the whole lock, which nobody gets while a process of another run lives. The kernel takes a lock
// back when its process ends, however that ends; whoever is last removes the file.
//
// RESULTS.db itself is not locked: SQLite's own locks of a file are lost when another descriptor is closed.
#pragma once

#include <filesystem>

#include "io/file_descriptor.hpp"

namespace headlens {

class RunLock {
 public:
  explicit RunLock(const std::filesystem::path& store);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  // Of the first process of a run in this folder. Throws Error if a process of another run lives.
  void begin();
  // Of the others, once the first one has begun.
  void join_in();

 private:
  void take(int kind);  // LOCK_EX or LOCK_SH
  [[noreturn]] void refuse(int system_error);

  std::filesystem::path store_, file_;
  io::FileDescriptor open_;
};

}  // namespace headlens

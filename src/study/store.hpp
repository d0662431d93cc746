// One SQLite file that holds studies and their cells.
//
//   study  name, source (the study file as it was run last), command_line, updated
//   cell   key, command, inputs (JSON), seed, status (running, done, failed), outputs (JSON), error, seconds,
//          ..., claim (the process that runs it)
//
// Every row has a checksum, which every read compares (store_rows.hpp): a damaged row is refused with its
// name. A store of version 1 has none; it is read as it is, and gets checksums when it is opened for writing.
//
// Write-ahead log with synchronous = FULL: what was committed survives kill -9 and power loss, and a full
// disk fails the one write that does not fit. On a file system of several machines the log does not work:
// such a store is not opened for writing, and read only where no log lies beside it. A file of a newer
// version, of another program or damaged is refused, and left as it is.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "headlens/study.hpp"
#include "study/store_rows.hpp"

namespace headlens {

struct StoredStudy {
  std::string name, source, command_line;
};

class Store {
 public:
  static Store open_to_read(const std::filesystem::path& path);
  static Store open_to_write(const std::filesystem::path& path);  // made if it is missing
  ~Store();
  Store(Store&&) noexcept;

  void put_study(const StoredStudy& study);
  std::vector<StoredStudy> studies();
  std::vector<CellRow> rows();
  // All of them or none, in one transaction, in place of rows of the same name or key.
  void put(const std::vector<StoredStudy>& studies, const std::vector<CellRow>& cells);

  // Status and results of a cell, by its key. A claim of a dead process counts as missing.
  void load(StudyCommand command, StudyCell& cell);

  // Makes the first cell of `keys` ours that nobody has finished or is running, in one transaction; its
  // index.
  struct Claim {
    std::optional<std::size_t> index;
    std::vector<std::size_t> settled;  // done or failed meanwhile: need not be asked for again
  };
  Claim claim(StudyCommand command, const std::vector<StudyCell>& cells,
              const std::vector<std::size_t>& pending, bool retry_failed);
  void finish(const StudyCell& cell);  // done or failed, with its results
  void release(const std::string& key);

 private:
  struct Connection;
  explicit Store(std::unique_ptr<Connection> connection);
  std::unique_ptr<Connection> connection_;
};

}  // namespace headlens

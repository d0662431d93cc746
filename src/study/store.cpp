#include "study/store.hpp"

#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <thread>

#include "headlens/error.hpp"
#include "io/printable.hpp"
#include "study/file_system.hpp"
#include "study/json_values.hpp"
#include "study/process.hpp"
#include "study/store_rows.hpp"

namespace headlens {
namespace {

namespace fs = std::filesystem;

constexpr int kVersion = 2;               // 1: rows without checksums
constexpr int kApplication = 0x484c5331;  // "HLS1"
constexpr int kBusyMilliseconds = 60000;

std::string command_name(StudyCommand command) { return command == StudyCommand::fit ? "fit" : "recover"; }

std::string now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

// " (samples = 64, model = RFA, seed 1)"
std::string described(const StudyCell& cell) {
  std::string axes;
  for (const auto& [name, value] : cell.axes) axes += name + " = " + io::printable_name(text(value)) + ", ";
  return " (" + axes + "seed " + std::to_string(cell.seed) + ")";
}

}  // namespace

struct Store::Connection {
  std::string shown;
  SQLite::Database database;
  bool checksums = true;

  Connection(const fs::path& path, int flags, const std::string& uri = "")
      : shown(io::printable(path.string())),
        database(uri.empty() ? fs::absolute(path).string() : uri, flags, kBusyMilliseconds) {}

  [[noreturn]] void fail(const SQLite::Exception& error) const { explain(shown, error); }

  [[noreturn]] static void explain(const std::string& shown, const SQLite::Exception& error) {
    const auto end = [&](const std::string& text) { throw Error(ErrorCode::environment, text); };
    switch (error.getErrorCode() & 0xff) {
      case SQLITE_NOTADB:
        end(shown + " is not a study store: it is not an SQLite file");
        break;
      case SQLITE_CORRUPT:
        end(shown + " is damaged (" + io::printable(error.what()) +
            "); 'sqlite3 FILE .recover' may save what is left");
        break;
      case SQLITE_FULL:
        end("cannot write " + shown + ": the disk is full; every finished cell is kept");
        break;
      case SQLITE_READONLY:
        end("cannot write " + shown + ": it is read-only");
        break;
      case SQLITE_BUSY:
        end(shown + " is locked by another process");
        break;
      default:
        end("cannot use " + shown + ": " + io::printable(error.what()));
    }
    throw Bug("unreachable");
  }

  // Another program's file, a newer one, a damaged one. One transaction, so that every answer is of one
  // moment: another process may be making the store.
  void check() {
    const SQLite::Transaction one_moment(database);
    const int application = database.execAndGet("PRAGMA application_id").getInt();
    const int version = database.execAndGet("PRAGMA user_version").getInt();
    const bool empty = database.execAndGet("SELECT count(*) FROM sqlite_master").getInt() == 0;
    require(application == kApplication || (application == 0 && version == 0 && empty), shown,
            " is an SQLite file of another program, not a study store");
    require(version <= kVersion, shown, " was written by a newer headlens: store version ", version,
            ", this one knows up to ", kVersion);
    if (version < 0 || (version == 0 && !empty))
      throw Error(ErrorCode::environment, join(shown, " is damaged: its store version is ", version));
    checksums = version > 1;
    // Not quick_check: an index that has lost a row would make its cell look missing.
    const std::string verdict = database.execAndGet("PRAGMA integrity_check(1)").getString();
    if (verdict != "ok")
      throw Error(ErrorCode::environment, shown + " is damaged (" + io::printable_name(verdict) +
                                              "); 'sqlite3 FILE .recover' may save what is left");
  }

  // Two processes may do this at once: the second one waits, then finds it done. SQLite does not wait by
  // itself while the journal changes.
  void prepare() {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::milliseconds(kBusyMilliseconds);
    while (true) {
      try {
        database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
        SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
        const int version = database.execAndGet("PRAGMA user_version").getInt();
        if (version == 0) create_tables(database);
        if (version == 1) add_checksums(database);
        if (version < kVersion)
          database.exec("PRAGMA application_id = " + std::to_string(kApplication) +
                        "; PRAGMA user_version = " + std::to_string(kVersion));
        transaction.commit();
        checksums = true;
        return;
      } catch (const SQLite::Exception& error) {
        if (error.getErrorCode() != SQLITE_BUSY || std::chrono::steady_clock::now() > give_up) throw;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    }
  }

  [[noreturn]] void refuse_cell(const std::string& key, const std::string& described) const {
    const std::string name = io::printable_name(key);
    throw Error(
        ErrorCode::environment,
        join(shown, " is damaged: the row of cell ", name, described,
             " does not have the checksum it was written with; restore the store from a copy, or remove the "
             "row with sqlite3 FILE \"DELETE FROM cell WHERE key = '",
             name, "'\" and let 'headlens study run' compute the cell again"));
  }

  template <class Act>
  auto guarded(const Act& act) {
    try {
      return act();
    } catch (const SQLite::Exception& error) {
      fail(error);
    } catch (const nlohmann::json::exception& error) {
      throw Error(ErrorCode::environment, shown + " is damaged: " + io::printable_name(error.what()));
    }
  }
};

namespace {

std::string immutable_uri(const fs::path& path) {
  std::string uri = "file:";
  for (const char c : fs::absolute(path).string()) {
    char escaped[4];
    std::snprintf(escaped, sizeof escaped, "%%%02x", static_cast<unsigned char>(c));
    uri += c == '/' ? std::string("/") : std::string(escaped);
  }
  return uri + "?immutable=1";
}

void require_file(const fs::path& path) {
  std::error_code error;
  const bool there = fs::exists(path, error), folder = fs::is_directory(path, error);
  if (!there || folder)
    throw Error(ErrorCode::environment, "cannot read " + io::printable(path.string()) +
                                            (folder ? ": it is a folder" : ": no such file"));
}

}  // namespace

Store::Store(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}
Store::~Store() = default;
Store::Store(Store&&) noexcept = default;

Store Store::open_to_write(const fs::path& path) {
  const std::string shown = io::printable(path.string());
  require_own_disk(path);
  try {
    auto connection = std::make_unique<Connection>(path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    connection->check();
    connection->prepare();
    return Store(std::move(connection));
  } catch (const SQLite::Exception& error) {
    // A folder where the log cannot be made.
    const fs::path place = fs::absolute(path).parent_path();
    const bool closed =
        fs::exists(path) && (access(path.c_str(), W_OK) != 0 || access(place.c_str(), W_OK) != 0);
    if (closed && error.getErrorCode() == SQLITE_CANTOPEN)
      throw Error(ErrorCode::environment, "cannot write " + shown + ": it is read-only");
    Connection::explain(shown, error);
  }
}

Store Store::open_to_read(const fs::path& path) {
  require_file(path);
  const std::string shown = io::printable(path.string());
  const auto open = [&](int flags, const std::string& uri) {
    auto connection = std::make_unique<Connection>(path, flags, uri);
    connection->check();
    const int version = connection->database.execAndGet("PRAGMA user_version").getInt();
    require(version > 0, shown, " is empty, not a study store");
    return Store(std::move(connection));
  };
  std::error_code none;
  const fs::path log = path.string() + "-wal";
  const bool settled = !fs::exists(log, none) || fs::file_size(log, none) == 0;
  const auto network = network_file_system(path);
  if (network && !settled)
    throw Error(ErrorCode::environment,
                join("cannot read ", shown, ": it lies on ", *network, " with a log beside it (",
                     io::printable(log.string()), "); copy both files to a local disk and read them there"));
  try {
    // Open to writing where that is allowed: only then is the log put away at the end.
    if (!network) return open(SQLite::OPEN_READWRITE, "");
  } catch (const SQLite::Exception& error) {
    // Without a log left to read, a store that lies where nothing can be written is read as it stands.
    const int code = error.getErrorCode() & 0xff;
    if ((code != SQLITE_CANTOPEN && code != SQLITE_READONLY) || !settled) Connection::explain(shown, error);
  }
  try {
    return open(SQLite::OPEN_READONLY | SQLite::OPEN_URI, immutable_uri(path));
  } catch (const SQLite::Exception& error) {
    Connection::explain(shown, error);
  }
}

void Store::put_study(const StoredStudy& study) { put({study}, {}); }

std::vector<StoredStudy> Store::studies() {
  return connection_->guarded([&] {
    std::vector<StoredStudy> found;
    for (const StudyRow& row : read_studies(connection_->database, connection_->checksums)) {
      if (!row.whole)
        throw Error(
            ErrorCode::environment,
            join(connection_->shown, " is damaged: the row of study '", io::printable_name(row.name),
                 "' does not have the checksum it was written with; 'headlens study run' with the study file "
                 "writes the row anew and keeps the cells"));
      found.push_back({row.name, row.source, row.command_line});
    }
    return found;
  });
}

std::vector<CellRow> Store::rows() {
  return connection_->guarded([&] {
    std::vector<CellRow> found = read_cells(connection_->database, connection_->checksums);
    for (const CellRow& row : found)
      if (!row.whole) connection_->refuse_cell(row.key, "");
    return found;
  });
}

void Store::put(const std::vector<StoredStudy>& studies, const std::vector<CellRow>& cells) {
  connection_->guarded([&] {
    SQLite::Transaction transaction(connection_->database, SQLite::TransactionBehavior::IMMEDIATE);
    for (const StoredStudy& study : studies)
      write(connection_->database, StudyRow{study.name, study.source, study.command_line, now()});
    for (const CellRow& row : cells) write(connection_->database, row);
    transaction.commit();
  });
}

void Store::load(StudyCommand command, StudyCell& cell) {
  connection_->guarded([&] {
    const auto row = read_cell(connection_->database, cell.key, connection_->checksums);
    if (!row) return;
    if (!row->whole) connection_->refuse_cell(cell.key, described(cell));
    ensure(row->command == command_name(command) && row->inputs == to_json(cell.inputs) &&
               row->seed == std::to_string(cell.seed),
           "two different cells have the key ", cell.key);
    if (row->status == "running") {
      cell.status = is_alive(row->claim) ? CellStatus::running : CellStatus::missing;
      return;
    }
    cell.status = row->status == "done" ? CellStatus::done : CellStatus::failed;
    cell.outputs = from_json(row->outputs);
    cell.error = row->error;
    cell.seconds = row->seconds;
    cell.peak_bytes = static_cast<std::uint64_t>(row->predicted_peak_bytes);
    cell.version = row->version;
    cell.git_commit = row->git_commit;
    cell.host = row->host;
    cell.blas_core = row->blas_core;
    cell.finished = row->finished;
  });
}

Store::Claim Store::claim(StudyCommand command, const std::vector<StudyCell>& cells,
                          const std::vector<std::size_t>& pending, bool retry_failed) {
  return connection_->guarded([&] {
    SQLite::Transaction transaction(connection_->database, SQLite::TransactionBehavior::IMMEDIATE);
    Claim claim;
    for (const std::size_t index : pending) {
      StudyCell cell = cells[index];
      load(command, cell);
      const bool settled =
          cell.status == CellStatus::done || (cell.status == CellStatus::failed && !retry_failed);
      if (settled) claim.settled.push_back(index);
      if (settled || cell.status == CellStatus::running) continue;
      CellRow row{cell.key, command_name(command), to_json(cell.inputs), std::to_string(cell.seed),
                  "running"};
      row.claim = this_process();
      write(connection_->database, row);
      claim.index = index;
      break;
    }
    transaction.commit();
    return claim;
  });
}

void Store::finish(const StudyCell& cell) {
  connection_->guarded([&] {
    SQLite::Transaction transaction(connection_->database, SQLite::TransactionBehavior::IMMEDIATE);
    auto row = read_cell(connection_->database, cell.key, connection_->checksums);
    if (!row || row->status == "done") return;
    if (!row->whole) connection_->refuse_cell(cell.key, "");
    row->status = name(cell.status);
    row->outputs = to_json(cell.outputs);
    row->error = cell.error;
    row->seconds = cell.seconds;
    row->predicted_peak_bytes = static_cast<std::int64_t>(cell.peak_bytes);
    row->version = cell.version;
    row->git_commit = cell.git_commit;
    row->host = cell.host;
    row->blas_core = cell.blas_core;
    row->finished = now();
    row->claim = "";
    write(connection_->database, *row);
    transaction.commit();
  });
}

void Store::release(const std::string& key) {
  connection_->guarded([&] {
    SQLite::Statement remove(connection_->database, "DELETE FROM cell WHERE key = ? AND status = 'running'");
    remove.bind(1, key);
    remove.exec();
  });
}

}  // namespace headlens

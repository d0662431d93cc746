#include "study/store.hpp"

#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <thread>

#include "headlens/error.hpp"
#include "io/printable.hpp"
#include "study/json_values.hpp"
#include "study/process.hpp"

namespace headlens {
namespace {

namespace fs = std::filesystem;

constexpr int kVersion = 1;
constexpr int kApplication = 0x484c5331;  // "HLS1"
constexpr int kBusyMilliseconds = 60000;

constexpr const char* kSchema = R"(
CREATE TABLE study(
  name TEXT PRIMARY KEY NOT NULL, source TEXT NOT NULL, command_line TEXT NOT NULL, updated TEXT NOT NULL) STRICT;
CREATE TABLE cell(
  key TEXT PRIMARY KEY NOT NULL, command TEXT NOT NULL, inputs TEXT NOT NULL, seed TEXT NOT NULL,
  status TEXT NOT NULL CHECK(status IN ('running', 'done', 'failed')),
  outputs TEXT NOT NULL DEFAULT '{}', error TEXT NOT NULL DEFAULT '',
  seconds REAL NOT NULL DEFAULT 0, predicted_peak_bytes INTEGER NOT NULL DEFAULT 0,
  version TEXT NOT NULL DEFAULT '', git_commit TEXT NOT NULL DEFAULT '', host TEXT NOT NULL DEFAULT '',
  blas_core TEXT NOT NULL DEFAULT '', finished TEXT NOT NULL DEFAULT '', claim TEXT NOT NULL DEFAULT '') STRICT;
)";

std::string command_name(StudyCommand command) { return command == StudyCommand::fit ? "fit" : "recover"; }

std::string now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

}  // namespace

struct Store::Connection {
  std::string shown;
  SQLite::Database database;

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

  // Another program's file, a newer one, a damaged one.
  void check() {
    const int application = database.execAndGet("PRAGMA application_id").getInt();
    const int version = database.execAndGet("PRAGMA user_version").getInt();
    const bool empty = database.execAndGet("SELECT count(*) FROM sqlite_master").getInt() == 0;
    require(application == kApplication || (application == 0 && version == 0 && empty), shown,
            " is an SQLite file of another program, not a study store");
    require(version <= kVersion, shown, " was written by a newer headlens: store version ", version,
            ", this one knows up to ", kVersion);
    const std::string verdict = database.execAndGet("PRAGMA quick_check(1)").getString();
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
        if (database.execAndGet("PRAGMA user_version").getInt() == 0) {
          database.exec(kSchema);
          database.exec("PRAGMA application_id = " + std::to_string(kApplication) +
                        "; PRAGMA user_version = " + std::to_string(kVersion));
        }
        transaction.commit();
        return;
      } catch (const SQLite::Exception& error) {
        if (error.getErrorCode() != SQLITE_BUSY || std::chrono::steady_clock::now() > give_up) throw;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    }
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
  try {
    // Open to writing where that is allowed: only then is the log put away at the end.
    return open(SQLite::OPEN_READWRITE, "");
  } catch (const SQLite::Exception& error) {
    // Without a log left to read, a store that lies where nothing can be written is read as it stands.
    const int code = error.getErrorCode() & 0xff;
    std::error_code none;
    const fs::path log = path.string() + "-wal";
    const bool settled = !fs::exists(log, none) || fs::file_size(log, none) == 0;
    if ((code != SQLITE_CANTOPEN && code != SQLITE_READONLY) || !settled) Connection::explain(shown, error);
  }
  try {
    return open(SQLite::OPEN_READONLY | SQLite::OPEN_URI, immutable_uri(path));
  } catch (const SQLite::Exception& error) {
    Connection::explain(shown, error);
  }
}

void Store::put_study(const StoredStudy& study) {
  connection_->guarded([&] {
    SQLite::Statement put(connection_->database,
                          "INSERT INTO study VALUES(?, ?, ?, ?) ON CONFLICT(name) DO UPDATE SET "
                          "source = excluded.source, command_line = excluded.command_line, "
                          "updated = excluded.updated");
    put.bind(1, study.name);
    put.bind(2, study.source);
    put.bind(3, study.command_line);
    put.bind(4, now());
    put.exec();
  });
}

std::vector<StoredStudy> Store::studies() {
  return connection_->guarded([&] {
    std::vector<StoredStudy> found;
    SQLite::Statement query(connection_->database,
                            "SELECT name, source, command_line FROM study ORDER BY rowid");
    while (query.executeStep())
      found.push_back(
          {query.getColumn(0).getString(), query.getColumn(1).getString(), query.getColumn(2).getString()});
    return found;
  });
}

std::set<std::string> Store::keys() {
  return connection_->guarded([&] {
    std::set<std::string> found;
    SQLite::Statement query(connection_->database, "SELECT key FROM cell");
    while (query.executeStep()) found.insert(query.getColumn(0).getString());
    return found;
  });
}

void Store::load(StudyCommand command, StudyCell& cell) {
  connection_->guarded([&] {
    SQLite::Statement query(connection_->database,
                            "SELECT command, inputs, seed, status, claim, outputs, error, seconds, "
                            "predicted_peak_bytes, version, "
                            "git_commit, host, blas_core, finished FROM cell WHERE key = ?");
    query.bind(1, cell.key);
    if (!query.executeStep()) return;
    const auto column = [&](int i) { return query.getColumn(i).getString(); };
    ensure(column(0) == command_name(command) && column(1) == to_json(cell.inputs) &&
               column(2) == std::to_string(cell.seed),
           "two different cells have the key ", cell.key);
    if (column(3) == "running") {
      cell.status = is_alive(column(4)) ? CellStatus::running : CellStatus::missing;
      return;
    }
    cell.status = column(3) == "done" ? CellStatus::done : CellStatus::failed;
    cell.outputs = from_json(column(5));
    cell.error = column(6);
    cell.seconds = query.getColumn(7).getDouble();
    cell.peak_bytes = static_cast<std::uint64_t>(query.getColumn(8).getInt64());
    cell.version = column(9);
    cell.git_commit = column(10);
    cell.host = column(11);
    cell.blas_core = column(12);
    cell.finished = column(13);
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
      SQLite::Statement put(connection_->database,
                            "INSERT OR REPLACE INTO cell(key, command, inputs, seed, status, claim) "
                            "VALUES(?, ?, ?, ?, 'running', ?)");
      put.bind(1, cell.key);
      put.bind(2, command_name(command));
      put.bind(3, to_json(cell.inputs));
      put.bind(4, std::to_string(cell.seed));
      put.bind(5, this_process());
      put.exec();
      claim.index = index;
      break;
    }
    transaction.commit();
    return claim;
  });
}

void Store::finish(const StudyCell& cell) {
  connection_->guarded([&] {
    SQLite::Statement put(connection_->database,
                          "UPDATE cell SET status = ?, outputs = ?, error = ?, seconds = ?, "
                          "predicted_peak_bytes = ?, version = ?, git_commit = ?, host = ?, blas_core = ?, "
                          "finished = ?, claim = '' WHERE key = ? AND status <> 'done'");
    put.bind(1, name(cell.status));
    put.bind(2, to_json(cell.outputs));
    put.bind(3, cell.error);
    put.bind(4, cell.seconds);
    put.bind(5, static_cast<std::int64_t>(cell.peak_bytes));
    put.bind(6, cell.version);
    put.bind(7, cell.git_commit);
    put.bind(8, cell.host);
    put.bind(9, cell.blas_core);
    put.bind(10, now());
    put.bind(11, cell.key);
    put.exec();
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

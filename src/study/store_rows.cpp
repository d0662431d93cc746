#include "study/store_rows.hpp"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>

#include "io/checksum.hpp"

namespace headlens {
namespace {

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

constexpr const char* kStudyColumns = "name, source, command_line, updated";
constexpr const char* kCellColumns =
    "key, command, inputs, seed, status, outputs, error, seconds, predicted_peak_bytes, version, git_commit, "
    "host, "
    "blas_core, finished, claim";

class RowChecksum {
 public:
  RowChecksum& operator<<(const std::string& column) {
    value_ = io::checksum(column.c_str(), column.size() + 1, value_);  // with its zero byte
    return *this;
  }
  std::int64_t value() const { return value_; }

 private:
  std::uint32_t value_ = 0;
};

std::int64_t checksum_of(const StudyRow& row) {
  return (RowChecksum() << row.name << row.source << row.command_line << row.updated).value();
}

std::int64_t checksum_of(const CellRow& row) {
  return (RowChecksum() << row.key << row.command << row.inputs << row.seed << row.status << row.outputs
                        << row.error << fmt::format("{:.17g}", row.seconds)
                        << std::to_string(row.predicted_peak_bytes) << row.version << row.git_commit
                        << row.host << row.blas_core << row.finished << row.claim)
      .value();
}

// "SELECT ..., checksum FROM ...", with 0 where there is none.
std::string selection(const char* columns, const char* table, bool checksums) {
  return fmt::format("SELECT {}, {} FROM {}", columns, checksums ? "checksum" : "0", table);
}

CellRow cell_row(SQLite::Statement& query, bool checksums) {
  const auto text = [&](int i) { return query.getColumn(i).getString(); };
  CellRow row{text(0),
              text(1),
              text(2),
              text(3),
              text(4),
              text(5),
              text(6),
              query.getColumn(7).getDouble(),
              query.getColumn(8).getInt64(),
              text(9),
              text(10),
              text(11),
              text(12),
              text(13),
              text(14)};
  row.whole = !checksums || query.getColumn(15).getInt64() == checksum_of(row);
  return row;
}

}  // namespace

std::vector<StudyRow> read_studies(SQLite::Database& database, bool checksums) {
  std::vector<StudyRow> rows;
  SQLite::Statement query(database, selection(kStudyColumns, "study", checksums) + " ORDER BY rowid");
  while (query.executeStep()) {
    const auto text = [&](int i) { return query.getColumn(i).getString(); };
    StudyRow& row = rows.emplace_back(StudyRow{text(0), text(1), text(2), text(3)});
    row.whole = !checksums || query.getColumn(4).getInt64() == checksum_of(row);
  }
  return rows;
}

std::vector<CellRow> read_cells(SQLite::Database& database, bool checksums) {
  std::vector<CellRow> rows;
  SQLite::Statement query(database, selection(kCellColumns, "cell", checksums));
  while (query.executeStep()) rows.push_back(cell_row(query, checksums));
  return rows;
}

std::optional<CellRow> read_cell(SQLite::Database& database, const std::string& key, bool checksums) {
  SQLite::Statement query(database, selection(kCellColumns, "cell", checksums) + " WHERE key = ?");
  query.bind(1, key);
  return query.executeStep() ? std::optional(cell_row(query, checksums)) : std::nullopt;
}

void write(SQLite::Database& database, const StudyRow& row) {
  SQLite::Statement put(
      database,
      "INSERT INTO study(name, source, command_line, updated, checksum) VALUES(?, ?, ?, ?, ?) ON "
      "CONFLICT(name) DO UPDATE SET source = excluded.source, command_line = excluded.command_line, "
      "updated = excluded.updated, checksum = excluded.checksum");
  int i = 0;
  for (const std::string* column : {&row.name, &row.source, &row.command_line, &row.updated})
    put.bind(++i, *column);
  put.bind(++i, checksum_of(row));
  put.exec();
}

void write(SQLite::Database& database, const CellRow& row) {
  SQLite::Statement put(
      database,
      fmt::format("INSERT OR REPLACE INTO cell({}, checksum) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
                  "?, ?, ?)",
                  kCellColumns));
  int i = 0;
  for (const std::string* column :
       {&row.key, &row.command, &row.inputs, &row.seed, &row.status, &row.outputs, &row.error})
    put.bind(++i, *column);
  put.bind(++i, row.seconds);
  put.bind(++i, row.predicted_peak_bytes);
  for (const std::string* column :
       {&row.version, &row.git_commit, &row.host, &row.blas_core, &row.finished, &row.claim})
    put.bind(++i, *column);
  put.bind(++i, checksum_of(row));
  put.exec();
}

void create_tables(SQLite::Database& database) {
  database.exec(kSchema);
  add_checksums(database);
}

void add_checksums(SQLite::Database& database) {
  for (const char* table : {"study", "cell"})
    database.exec(fmt::format("ALTER TABLE {} ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0", table));
  for (const StudyRow& row : read_studies(database, false)) write(database, row);
  for (const CellRow& row : read_cells(database, false)) write(database, row);
}

}  // namespace headlens

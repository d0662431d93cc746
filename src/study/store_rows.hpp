// The rows of a store, each with a checksum over everything it holds.
//
//   checksum = CRC-32 of the other columns in the order of the table, each as text with a zero byte after it;
//              seconds as printf("%.17g"), whole numbers in decimals
//
// A bit that turned over on the disk is then an error that names the row, and never another result.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace SQLite {
class Database;
}

namespace headlens {

struct StudyRow {
  std::string name, source, command_line, updated;
  bool whole = true;  // what is stored has the checksum that is stored; true without one
};

struct CellRow {
  std::string key, command, inputs, seed, status, outputs = "{}", error;
  double seconds = 0;
  std::int64_t predicted_peak_bytes = 0;
  std::string version, git_commit, host, blas_core, finished, claim;
  bool whole = true;
};

// Stores of version 1 have no checksums: they are read as they stand.
std::vector<StudyRow> read_studies(SQLite::Database& database, bool checksums);  // oldest first
std::vector<CellRow> read_cells(SQLite::Database& database, bool checksums);
std::optional<CellRow> read_cell(SQLite::Database& database, const std::string& key, bool checksums);

void write(SQLite::Database& database, const StudyRow& row);  // in place of the one of its name
void write(SQLite::Database& database, const CellRow& row);   // in place of the one of its key

void create_tables(SQLite::Database& database);
void add_checksums(SQLite::Database& database);  // to the tables of version 1

}  // namespace headlens

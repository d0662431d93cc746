// Studies: a grid of cells from a TOML file, run by a resumable runner into one SQLite file.
//
// A cell is one fit or one recovery on random data. Its inputs are every value that decides its outcome, and
// its key is a hash of them, so a store never mixes cells of different meaning and never repeats one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "headlens/array.hpp"
#include "headlens/execution.hpp"

namespace headlens {

using StudyValue = std::variant<std::int64_t, double, std::string, bool>;
using StudyValues = std::vector<std::pair<std::string, StudyValue>>;  // in the order of the study file
std::string text(const StudyValue& value);                            // shortest form that reads back

enum class StudyCommand { fit, recover };

// What a study file may say of the cells of a command; the default is written as in TOML.
struct StudyOption {
  std::string name, help, fallback;
};
std::vector<StudyOption> study_options(StudyCommand command);

// One dimension of the grid. A value is a number or word for the option of the axis' name, or a named bundle
// of options (`[variants.model] RFA = {model = "rfa", heads = 1000}`), known in results by its name.
struct StudyAxis {
  std::string name;
  std::vector<StudyValue> values;
  std::vector<StudyValues> bundles;  // empty, or the options behind each value
};

enum class FigureKind { learning_curves, head_curves, phase_diagram, sample_table, growth };

struct FigureSpec {
  FigureKind kind = FigureKind::learning_curves;
  std::string title, caption;
  std::string x, y;             // an axis; a recorded quantity (phase diagram: two axes)
  std::string panel, series;    // axes; either may be empty
  std::string quantity;         // what a phase diagram colours or a sample table measures
  bool theory = false;          // learning curves of nmse: predictions and bounds beside them
  std::string beside, success;  // growth: a quantity to measure it by; one that is 1 where a cell succeeds
};

// "`better` has the smaller `quantity` than `worse`", tested pairwise on equal sets and seeds along axis `x`.
struct FindingSpec {
  std::string text;                  // what the paper says
  std::string quantity, x;           // recorded quantity; axis along which it is judged
  StudyValues better, worse, where;  // values of axes that pick the cells compared
  double from = 0, to = 0;           // range of x in which it should hold; 0, 0: everywhere
};

struct Study {
  std::string name, title, question;
  StudyCommand command = StudyCommand::fit;
  StudyValues fixed;
  std::vector<StudyAxis> axes;
  std::vector<std::uint64_t> seeds;
  std::vector<std::string> record;  // quantities kept of every cell
  std::vector<FigureSpec> figures;
  std::vector<FindingSpec> findings;
  std::string source;  // the file, word for word, with --set applied
};

// Errors name the file, the line and the key. `overrides` are "key=value" as in TOML:
// "grid.samples=[64,128]".
Study read_study(const std::filesystem::path& path, const std::vector<std::string>& overrides = {});

enum class CellStatus { missing, running, done, failed };
std::string name(CellStatus status);

struct StudyCell {
  std::string key;
  StudyValues axes;    // this cell's value on each axis, as the study names it
  StudyValues inputs;  // every option, defaults included
  std::uint64_t seed = 0;
  CellStatus status = CellStatus::missing;
  StudyValues outputs;  // recorded quantities; for a failed cell, empty
  std::string error;
  double seconds = 0;
  std::uint64_t peak_bytes = 0;  // predicted: a process that runs several cells has no peak of one cell
  std::string version, git_commit, host, blas_core, finished;
};

struct StudyResults {
  Study study;
  std::vector<StudyCell> cells;  // in the order of the grid
  std::string command_line;      // that ran it last
};

struct RunOptions {
  int jobs = 0;                   // cells at a time; 0: one per thread of the budget
  std::string shard;              // "2/8": the second of eight disjoint parts of the cells; empty: all
  bool retry_failed = false;      // failed cells are run again
  std::string command_line;       // kept in the store, for the report
  std::set<std::string> settled;  // keys of cells that another store has: they are left out
};

struct RunSummary {
  Index total = 0;
  Index already_done = 0;  // before this run
  Index ran = 0;           // by this run, failed ones included
  Index failed = 0;        // of all cells, in the end
  Index elsewhere = 0;     // finished by another process meanwhile
  double seconds = 0;
};

// Runs what is missing, beside other processes if there are any, and returns when every cell is done or
// failed. A cell that fails is recorded and stops nothing. Cancelling ends with Error{interrupted} and loses
// only cells in flight, as does the end of the process or a full disk.
RunSummary run_study(const Study& study, const std::filesystem::path& store, const RunOptions& options,
                     const Execution& execution);

// The same on all ranks together, with what is left of the cells dealt out among them. Every rank fills a
// store beside `store`, RESULTS.db.rank-R, on a disk of its machine; in the end, or when the same command
// begins again after a kill, rank 0 merges these into `store`. The summary is that of rank 0.
RunSummary run_study_over_ranks(const Study& study, const std::filesystem::path& store,
                                const RunOptions& options, const Execution& execution);

struct MergeSummary {
  Index cells = 0;  // in the merged store: done or failed
  Index added = 0;  // that it did not have before
  Index failed = 0;
};

// Adds the finished cells of several stores, of shards or of other machines, to `merged`, made if it is
// missing. Again is no change. Cells with different values, times aside, are an Error, and then nothing is
// merged.
MergeSummary merge_studies(const std::vector<std::filesystem::path>& stores,
                           const std::filesystem::path& merged, const std::string& command_line);

// Every study of a store, with its cells, finished or not.
std::vector<StudyResults> read_results(const std::filesystem::path& store);
// One study, whether or not it was ever run into this store.
StudyResults read_results(const std::filesystem::path& store, const Study& study);
Index count_other_cells(const std::filesystem::path& store);  // kept, but of no study as it stands now

// One row per cell in the order of the grid, all columns named. Columns that change from run to run come
// last.
enum class ExportFormat { csv, json };
std::string export_results(const StudyResults& results, ExportFormat format);

}  // namespace headlens

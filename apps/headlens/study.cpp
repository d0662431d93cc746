// headlens study run|merge|status|export: grids of fits or recoveries, in one resumable file.
#include "headlens/study.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "command.hpp"
#include "files.hpp"
#include "headlens/arrays.hpp"
#include "headlens/error.hpp"
#include "headlens/ranks.hpp"

namespace headlens::app {
namespace {

struct StudyArguments {
  CommonOptions common;
  std::string study, store, output, name, format = "csv";
  std::vector<std::string> overrides, stores;
  RunOptions run;
  bool mpi = false;
};

// A word of a command line, as a POSIX shell would need it.
std::string shell_word(const std::string& word) {
  const bool plain = !word.empty() && word.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                          "_-./=:,+@%") == std::string::npos;
  if (plain) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::string command_line(const StudyArguments& a) {
  std::string line = fmt::format("headlens study run {} -o {}", shell_word(a.study), shell_word(a.store));
  if (a.run.jobs > 0) line += fmt::format(" --jobs {}", a.run.jobs);
  if (!a.run.shard.empty()) line += " --shard " + shell_word(a.run.shard);
  if (a.mpi) line += " --mpi";
  if (a.common.wanted.threads > 0) line += fmt::format(" --threads {}", a.common.wanted.threads);
  if (!a.common.max_memory.empty()) line += " --max-memory " + shell_word(a.common.max_memory);
  for (const std::string& text : a.overrides) line += " --set " + shell_word(text);
  return line;
}

int run(StudyArguments& a) {
  Files({a.study}).output("-o", a.store, Stream::refused);
  Study study;
  on_every_rank([&] { study = read_study(a.study, a.overrides); });
  a.run.command_line = command_line(a);
  const RunSummary summary =
      (a.mpi ? run_study_over_ranks : run_study)(study, a.store, a.run, a.common.execution());
  std::string text = fmt::format("{}: {} cells of {} done in {:.1f} s ({} before, {} now", a.store,
                                 summary.total - summary.failed, study.name, summary.seconds,
                                 summary.already_done, summary.ran);
  if (summary.elsewhere > 0) text += fmt::format(", {} by another process", summary.elsewhere);
  text += ")";
  if (summary.failed > 0)
    text += fmt::format("\n{} cells failed: 'headlens study status {}' says why, --retry-failed tries again",
                        summary.failed, shell_word(a.store));
  print(a.common,
        {{"file", a.store},
         {"study", study.name},
         {"cells", summary.total},
         {"already_done", summary.already_done},
         {"ran", summary.ran},
         {"failed", summary.failed},
         {"elsewhere", summary.elsewhere},
         {"seconds", summary.seconds}},
        text);
  return summary.failed > 0 ? kOutcome : kOk;
}

int merge(const StudyArguments& a) {
  Files(a.stores).output("-o", a.output, Stream::refused);
  std::string line = "headlens study merge";
  for (const std::string& store : a.stores) line += " " + shell_word(store);
  line += " -o " + shell_word(a.output);
  const MergeSummary summary = merge_studies({a.stores.begin(), a.stores.end()}, a.output, line);
  std::string text = fmt::format("{}: {} cells from {} stores, {} of them new", a.output, summary.cells,
                                 a.stores.size(), summary.added);
  if (summary.failed > 0) text += fmt::format("; {} failed", summary.failed);
  print(a.common,
        {{"file", a.output},
         {"stores", a.stores},
         {"cells", summary.cells},
         {"added", summary.added},
         {"failed", summary.failed}},
        text);
  return kOk;
}

struct Tally {
  Index total = 0, done = 0, failed = 0, running = 0, missing = 0;
  std::vector<std::string> errors;  // distinct
};

Tally tally(const StudyResults& results) {
  Tally t;
  for (const StudyCell& cell : results.cells) {
    ++t.total;
    t.done += cell.status == CellStatus::done ? 1 : 0;
    t.failed += cell.status == CellStatus::failed ? 1 : 0;
    t.running += cell.status == CellStatus::running ? 1 : 0;
    t.missing += cell.status == CellStatus::missing ? 1 : 0;
    const bool known = std::find(t.errors.begin(), t.errors.end(), cell.error) != t.errors.end();
    if (!cell.error.empty() && !known) t.errors.push_back(cell.error);
  }
  return t;
}

int status(const StudyArguments& a) {
  const std::vector<StudyResults> all =
      a.study.empty() ? read_results(a.store)
                      : std::vector{read_results(a.store, read_study(a.study, a.overrides))};
  const Index others = count_other_cells(a.store);
  Json studies = Json::array();
  std::string text;
  for (const StudyResults& results : all) {
    const Tally t = tally(results);
    studies.push_back({{"name", results.study.name},
                       {"cells", t.total},
                       {"done", t.done},
                       {"failed", t.failed},
                       {"running", t.running},
                       {"missing", t.missing},
                       {"errors", t.errors},
                       {"command_line", results.command_line}});
    text += fmt::format("{}: {} of {} cells done, {} failed, {} running, {} missing\n", results.study.name,
                        t.done, t.total, t.failed, t.running, t.missing);
    for (const std::string& error : t.errors) text += fmt::format("  failed: {}\n", error);
  }
  text += others > 0 ? fmt::format("{} more cells are of earlier grids", others) : "no other cells";
  print(a.common, {{"file", a.store}, {"studies", studies}, {"other_cells", others}}, text);
  return kOk;
}

int export_table(const StudyArguments& a) {
  const auto file = Files({a.store}).output("-o", a.output, Stream::text);
  const std::vector<StudyResults> all = read_results(a.store);
  std::string names;
  for (const StudyResults& results : all) names += (names.empty() ? "" : ", ") + results.study.name;
  require(!a.name.empty() || all.size() == 1, a.store, " holds ", all.size(), " studies (", names,
          "): choose one with --study");
  const auto chosen = std::find_if(all.begin(), all.end(), [&](const StudyResults& results) {
    return a.name.empty() || results.study.name == a.name;
  });
  require(chosen != all.end(), "study '", a.name, "' is not in ", a.store, ", which holds ", names);
  const std::string table =
      export_results(*chosen, a.format == "csv" ? ExportFormat::csv : ExportFormat::json);
  if (a.output.empty())
    fmt::print("{}", table);
  else
    write_text(file, table);
  return kOk;
}

void add_sets(Command& command, StudyArguments& a) {
  command.add_texts("--set", a.overrides, "KEY=VALUE",
                    "change the study, as in TOML: --set 'grid.samples=[64,128]'; may be repeated");
}

void add_run(Command& study) {
  auto a = std::make_shared<StudyArguments>();
  Command& command = study.add_command("run", "Run the cells of a study that a store does not have yet");
  command.add_positional("STUDY", a->study, "study file (.toml)");
  command.add_text("-o,--output", a->store, "RESULTS", "store to fill (.db), made if it is missing",
                   Needed::yes);
  command.add_options(a->run, {"jobs", "shard"});
  command.add_flag("--mpi", a->mpi,
                   "the ranks that mpirun started share the cells, and rank 0 writes RESULTS");
  add_sets(command, *a);
  command.add_options(a->run, {"retry-failed"});
  add_common_options(command, a->common);
  add_backend(command, a->common);
  command.set_footer(
      "Whatever ends it, at most the cells in flight are lost; the same command goes on from there. Several\n"
      "processes may fill one store. Exit status 3 if cells failed.\n\n"
      "Examples:\n"
      "  headlens study run studies/separation-small.toml -o results.db\n"
      "  headlens study run studies/bias.toml -o results.db --jobs 4 --set 'seeds=[1,2]'\n"
      "  headlens study run studies/bias.toml -o part-2.db --shard 2/8\n"
      "  mpirun -n 8 headlens study run studies/bias.toml -o results.db --mpi --threads 1");
  command.set_action([a] { return run(*a); });
}

void add_merge(Command& study) {
  auto a = std::make_shared<StudyArguments>();
  Command& command = study.add_command("merge", "Join the stores of several machines or shards");
  command.add_positionals("RESULTS", a->stores, "stores to join (.db); none of them changes", Needed::yes);
  command.add_text("-o,--output", a->output, "ALL",
                   "store to add their cells to (.db), made if it is missing", Needed::yes);
  command.add_flag("--json", a->common.json, "one JSON object on standard output");
  command.set_footer(
      "Cells that are still running are left out: merge again when they are done. If two stores have\n"
      "different values for one cell, nothing is merged.\n\n"
      "Example:\n  headlens study merge part-1.db part-2.db -o results.db");
  command.set_action([a] { return merge(*a); });
}

void add_status(Command& study) {
  auto a = std::make_shared<StudyArguments>();
  Command& command = study.add_command("status", "Count the cells of a store, and say why some failed");
  command.add_positional("RESULTS", a->store, "store (.db)");
  command.add_positional("STUDY", a->study, "study file to look for (default: every study of the store)",
                         Needed::no);
  add_sets(command, *a);
  command.add_flag("--json", a->common.json, "one JSON object on standard output");
  command.set_footer("Example:\n  headlens study status results.db");
  command.set_action([a] { return status(*a); });
}

void add_export(Command& study) {
  auto a = std::make_shared<StudyArguments>();
  Command& command = study.add_command("export", "Write the cells of a study as a table");
  command.add_positional("RESULTS", a->store, "store (.db)");
  command.add_text("--format", a->format, "csv|json", "csv or json, of the table");
  command.add_text("-o,--output", a->output, "FILE", "file to write (default: standard output)");
  command.add_text("--study", a->name, "NAME", "name of the study, if the store holds several");
  command.set_footer("Example:\n  headlens study export results.db --format csv -o results.csv");
  command.set_action([a] { return export_table(*a); });
}

}  // namespace

void add_study(Command& app) {
  Command& command = app.add_command("study", "Run a grid of fits or recoveries from a TOML file");
  command.require_command();
  add_run(command);
  add_merge(command);
  add_status(command);
  add_export(command);
  command.set_footer(
      "Examples:\n"
      "  headlens study run studies/separation-small.toml -o results.db\n"
      "  headlens study status results.db\n"
      "  headlens study export results.db --format csv -o results.csv");
}

}  // namespace headlens::app

// Stores of several machines -> one store.
#include <algorithm>
#include <map>

#include "headlens/error.hpp"
#include "io/printable.hpp"
#include "study/json_values.hpp"
#include "study/store.hpp"
#include "study/store_rows.hpp"

namespace headlens {
namespace {

namespace fs = std::filesystem;

struct Origin {
  CellRow row;
  fs::path store;
};
using Cells = std::map<std::string, Origin>;

// What two runs of one cell have in common: everything but times.
std::string lasting(const CellRow& row) {
  StudyValues outputs = from_json(row.outputs);
  std::erase_if(outputs, [](const auto& item) { return item.first.ends_with("seconds"); });
  return to_json(outputs);
}

[[noreturn]] void refuse(const CellRow& row, const fs::path& a, const fs::path& b) {
  throw Error(ErrorCode::environment,
              join(io::printable(a.string()), " and ", io::printable(b.string()),
                   " have different values for the cell ", io::printable_name(row.key), " (seed ",
                   io::printable_name(row.seed),
                   "): the machines or versions that computed them differ; nothing was merged"));
}

// A finished cell replaces a failed one, and every other pair must agree.
void add(Cells& cells, const CellRow& row, const fs::path& store) {
  if (row.status == "running") return;  // a claim of a process of that machine
  const auto [place, is_new] = cells.try_emplace(row.key, Origin{row, store});
  if (is_new) return;
  CellRow& known = place->second.row;
  const bool same_cell = known.command == row.command && known.inputs == row.inputs && known.seed == row.seed;
  const bool both_done = known.status == "done" && row.status == "done";
  if (!same_cell || (both_done && lasting(known) != lasting(row))) refuse(row, place->second.store, store);
  if (known.status == "failed" && row.status == "done") place->second = {row, store};
}

void add(std::map<std::string, std::pair<StoredStudy, fs::path>>& studies, const StoredStudy& study,
         const fs::path& store) {
  const auto [place, is_new] = studies.try_emplace(study.name, study, store);
  require(is_new || place->second.first.source == study.source, io::printable(place->second.second.string()),
          " and ", io::printable(store.string()), " hold different studies of the name '",
          io::printable_name(study.name), "': run both with the same study file and the same changes");
}

}  // namespace

MergeSummary merge_studies(const std::vector<fs::path>& stores, const fs::path& merged,
                           const std::string& command_line) {
  require(!stores.empty(), "nothing to merge: no store was given");
  Cells cells;
  std::map<std::string, std::pair<StoredStudy, fs::path>> studies;
  for (const fs::path& path : stores) {
    Store store = Store::open_to_read(path);
    for (const CellRow& row : store.rows()) add(cells, row, path);
    for (const StoredStudy& study : store.studies()) add(studies, study, path);
  }
  Store target = Store::open_to_write(merged);
  Index before = 0;
  for (const CellRow& row : target.rows()) add(cells, row, merged), before += row.status == "running" ? 0 : 1;
  std::vector<CellRow> rows;
  std::vector<StoredStudy> described;
  for (const auto& [key, origin] : cells) rows.push_back(origin.row);
  for (const auto& [name, origin] : studies) described.push_back({name, origin.first.source, command_line});
  target.put(described, rows);
  MergeSummary summary{std::ssize(cells), std::ssize(cells) - before};
  for (const CellRow& row : rows) summary.failed += row.status == "failed" ? 1 : 0;
  return summary;
}

}  // namespace headlens

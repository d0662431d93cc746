// What a store knows of a study.
#include <set>

#include "headlens/error.hpp"
#include "io/printable.hpp"
#include "study/grid.hpp"
#include "study/store.hpp"
#include "study/study_file.hpp"

namespace headlens {
namespace {

// Quantities that the study shows, in its order.
StudyValues shown(const StudyValues& all, const std::vector<std::string>& record) {
  StudyValues values;
  for (const std::string& quantity : record)
    for (const auto& item : all)
      if (item.first == quantity) values.push_back(item);
  return values;
}

Study parse_stored(const StoredStudy& stored, const std::filesystem::path& path) {
  return parse_study(stored.source, io::printable(path.string()) + ", study " + stored.name);
}

StudyResults load_results(Store& store, Study study, std::string command_line) {
  StudyResults results{std::move(study), {}, std::move(command_line)};
  results.cells = make_cells(results.study);
  for (StudyCell& cell : results.cells) {
    store.load(results.study.command, cell);
    cell.outputs = shown(cell.outputs, results.study.record);
  }
  return results;
}

}  // namespace

std::vector<StudyResults> read_results(const std::filesystem::path& path) {
  Store store = Store::open_to_read(path);
  std::vector<StudyResults> all;
  for (const StoredStudy& stored : store.studies())
    all.push_back(load_results(store, parse_stored(stored, path), stored.command_line));
  return all;
}

StudyResults read_results(const std::filesystem::path& path, const Study& study) {
  Store store = Store::open_to_read(path);
  std::string command_line;
  for (const StoredStudy& stored : store.studies())
    if (stored.name == study.name) command_line = stored.command_line;
  return load_results(store, study, command_line);
}

Index count_other_cells(const std::filesystem::path& path) {
  Store store = Store::open_to_read(path);
  std::set<std::string> keys;
  for (const CellRow& row : store.rows()) keys.insert(row.key);
  for (const StoredStudy& stored : store.studies())
    for (const StudyCell& cell : make_cells(parse_stored(stored, path))) keys.erase(cell.key);
  return static_cast<Index>(keys.size());
}

}  // namespace headlens

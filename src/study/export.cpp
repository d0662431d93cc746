// Results as a table.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "headlens/error.hpp"
#include "study/cell_options.hpp"
#include "study/json_values.hpp"

namespace headlens {
namespace {

using Json = nlohmann::ordered_json;
using Row = std::vector<std::string>;

// RFC 4180.
std::string quoted(const std::string& field) {
  if (field.find_first_of(",\"\r\n") == std::string::npos) return field;
  std::string out = "\"";
  for (const char c : field) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

std::string line(const Row& row) {
  std::string out;
  for (std::size_t i = 0; i < row.size(); ++i) out += (i > 0 ? "," : "") + quoted(row[i]);
  return out + "\n";
}

std::string field(const StudyValues& values, std::string_view wanted) {
  for (const auto& [name, value] : values)
    if (name == wanted) return text(value);
  return "";
}

bool is_time(const std::string& quantity) { return quantity.ends_with("seconds"); }

struct Columns {
  std::vector<std::string> axes;    // of variants, and those that are no input of a cell
  std::vector<std::string> inputs;  // that apply to some cell
  std::vector<std::string> results, times;
};

Columns columns_of(const StudyResults& results) {
  Columns columns;
  for (const CellOption& option : options_of(results.study.command)) {
    const bool used = std::any_of(results.cells.begin(), results.cells.end(), [&](const StudyCell& cell) {
      return std::any_of(cell.inputs.begin(), cell.inputs.end(),
                         [&](const auto& item) { return item.first == option.name; });
    });
    if (used) columns.inputs.emplace_back(option.name);
  }
  for (const StudyAxis& axis : results.study.axes) {
    const bool input =
        std::find(columns.inputs.begin(), columns.inputs.end(), axis.name) != columns.inputs.end();
    if (!axis.bundles.empty() || !input) columns.axes.push_back(axis.name);
  }
  for (const std::string& quantity : results.study.record)
    (is_time(quantity) ? columns.times : columns.results).push_back(quantity);
  return columns;
}

Row header(const Study& study, const Columns& columns) {
  Row row{"key"};
  for (const std::string& name : columns.axes) {
    const auto axis = std::find_if(study.axes.begin(), study.axes.end(),
                                   [&](const StudyAxis& a) { return a.name == name; });
    row.push_back(axis->bundles.empty() ? name : "variants." + name);
  }
  row.insert(row.end(), columns.inputs.begin(), columns.inputs.end());
  row.insert(row.end(), {"seed", "status"});
  row.insert(row.end(), columns.results.begin(), columns.results.end());
  row.insert(row.end(), {"error", "version", "git_commit", "blas_core"});
  row.insert(row.end(), columns.times.begin(), columns.times.end());
  row.insert(row.end(), {"seconds", "predicted_peak_bytes", "host", "finished"});
  return row;
}

Row row_of(const StudyCell& cell, const Columns& columns) {
  Row row{cell.key};
  for (const std::string& name : columns.axes) row.push_back(field(cell.axes, name));
  for (const std::string& name : columns.inputs) row.push_back(field(cell.inputs, name));
  row.insert(row.end(), {std::to_string(cell.seed), name(cell.status)});
  for (const std::string& name : columns.results) row.push_back(field(cell.outputs, name));
  const bool ended = cell.status == CellStatus::done || cell.status == CellStatus::failed;
  const bool done = cell.status == CellStatus::done;
  row.insert(row.end(), {cell.error, cell.version, cell.git_commit, cell.blas_core});
  for (const std::string& name : columns.times) row.push_back(field(cell.outputs, name));
  row.insert(row.end(), {ended ? text(cell.seconds) : "", done ? std::to_string(cell.peak_bytes) : "",
                         cell.host, cell.finished});
  return row;
}

std::string as_csv(const StudyResults& results) {
  const Columns columns = columns_of(results);
  std::string out = line(header(results.study, columns));
  for (const StudyCell& cell : results.cells) out += line(row_of(cell, columns));
  return out;
}

// Infinite and undefined numbers become null.
Json json_object(const StudyValues& values) {
  Json out = Json::object();
  for (const auto& [name, value] : values) {
    const auto* number = std::get_if<double>(&value);
    if (number && !std::isfinite(*number))
      out[name] = nullptr;
    else
      std::visit([&, key = name](const auto& item) { out[key] = item; }, value);
  }
  return out;
}

Json json_cell(const StudyCell& cell) {
  return {{"key", cell.key},
          {"axes", json_object(cell.axes)},
          {"inputs", json_object(cell.inputs)},
          {"seed", cell.seed},
          {"status", name(cell.status)},
          {"outputs", json_object(cell.outputs)},
          {"error", cell.error},
          {"version", cell.version},
          {"git_commit", cell.git_commit},
          {"blas_core", cell.blas_core},
          {"seconds", cell.seconds},
          {"predicted_peak_bytes", cell.peak_bytes},
          {"host", cell.host},
          {"finished", cell.finished}};
}

std::string as_json(const StudyResults& results) {
  Json cells = Json::array();
  for (const StudyCell& cell : results.cells) cells.push_back(json_cell(cell));
  const bool fits = results.study.command == StudyCommand::fit;
  const Json json{{"study", results.study.name}, {"command", fits ? "fit" : "recover"}, {"cells", cells}};
  // Error texts may quote a file name that is not UTF-8.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string export_results(const StudyResults& results, ExportFormat format) {
  return format == ExportFormat::csv ? as_csv(results) : as_json(results);
}

}  // namespace headlens

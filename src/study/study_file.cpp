#include "study/study_file.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "io/printable.hpp"
#include "study/cell_options.hpp"
#include "study/grid.hpp"
#include "study/study_figures.hpp"
#include "study/toml_section.hpp"

namespace headlens {
namespace {

using Entry = Section::Entry;

// "ridge: -1 given" without "ridge: ": the line of the file names the option.
std::string without_subject(const Text& said) { return said.str().substr(said.subject().size() + 2); }

// Where the study gives an option: [fixed], all values of an axis, or one bundle of an axis.
struct ValueOrigin {
  std::string option, path;
  toml::source_position at;
  std::ptrdiff_t axis = -1, value = -1;
};

class Reader {
 public:
  Reader(const toml::table& table, const Text& file) : top_(table, file, "") {}

  Study read() {
    top_.allow_only({"name", "title", "question", "command", "seeds", "record", "fixed", "grid", "variants",
                     "figure", "finding"});
    read_head();
    read_seeds();
    read_record();
    read_fixed();
    read_axes();
    check_cells();
    read_figures(top_, study_);
    read_findings(top_, study_);
    return std::move(study_);
  }

 private:
  void read_head() {
    study_.name = top_.required_word("name");
    const bool plain = study_.name.size() <= 100 && study_.name.front() != '.' &&
                       study_.name.find_first_not_of(
                           "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                           "0123456789._-") == std::string::npos;
    if (!plain)
      top_.fail(*top_.find("name"), "'", io::printable_name(study_.name),
                "' given, expected letters, digits, '.', '_' and '-'");
    study_.title = top_.word("title", study_.name);
    study_.question = top_.word("question");
    const std::string command = top_.required_word("command");
    if (command != "fit" && command != "recover")
      top_.fail(*top_.find("command"), "'", io::printable_name(command), "' given, expected fit or recover");
    study_.command = command == "fit" ? StudyCommand::fit : StudyCommand::recover;
  }

  void read_seeds() {
    const Entry* entry = top_.find("seeds");
    if (!entry) top_.fail_at(top_.at(), "seeds", "missing, expected an array such as [1, 2, 3]");
    for (const toml::node& node : top_.filled_array(*entry)) {
      const auto* seed = node.as_integer();
      if (!seed || seed->get() < 0) top_.fail(*entry, "expected whole numbers, 0 or more");
      const auto value = static_cast<std::uint64_t>(seed->get());
      if (std::find(study_.seeds.begin(), study_.seeds.end(), value) != study_.seeds.end())
        top_.fail(*entry, value, " is given twice");
      study_.seeds.push_back(value);
    }
  }

  void read_record() {
    const auto& all = quantities_of(study_.command);
    const Entry* entry = top_.find("record");
    if (!entry) {
      study_.record = all;
      return;
    }
    study_.record = {"outcome"};
    for (const toml::node& node : top_.filled_array(*entry)) {
      const std::string quantity = text(top_.value(*entry, node));
      if (std::find(all.begin(), all.end(), quantity) == all.end())
        top_.fail(*entry, "'", io::printable_name(quantity), "' is not a quantity of this command",
                  suggestion(quantity, all));
      const bool again =
          std::find(study_.record.begin(), study_.record.end(), quantity) != study_.record.end();
      if (again && quantity != "outcome") top_.fail(*entry, "'", quantity, "' is given twice");
      if (!again) study_.record.push_back(quantity);
    }
  }

  const CellOption& option(const Section& section, const Entry& entry) const {
    if (const CellOption* found = find_option(study_.command, entry.key)) return *found;
    std::vector<std::string> names;
    for (const CellOption& known : options_of(study_.command)) names.emplace_back(known.name);
    section.fail(entry, "not an option of this command", suggestion(entry.key, names));
  }

  StudyValue option_value(const Section& section, const Entry& entry, const toml::node& node) const {
    const CellOption& wanted = option(section, entry);
    const StudyValue value = section.value(entry, node);
    try {
      return convert(wanted, value);
    } catch (const Error& error) {
      section.fail(entry, without_subject(error.text()));
    }
  }

  // An option may be given in one place only; the bundles of one axis are one place.
  void remember(const Section& section, const Entry& entry, std::ptrdiff_t axis, std::ptrdiff_t value) {
    for (const ValueOrigin& origin : origins_)
      if (origin.option == entry.key && !(axis >= 0 && origin.axis == axis && origin.value != value))
        section.fail(entry, "already given in line ", origin.at.line, " as ", origin.path);
    origins_.push_back({entry.key, section.join_path(entry.key), entry.at, axis, value});
  }

  void read_fixed() {
    const Entry* fixed = top_.find("fixed");
    if (!fixed) return;
    const Section section = top_.table(*fixed);
    for (const Entry& entry : section.entries()) {
      study_.fixed.emplace_back(entry.key, option_value(section, entry, *entry.node));
      remember(section, entry, -1, -1);
    }
  }

  // Axes of [grid] and of [variants], in the order of the file.
  void read_axes() {
    std::vector<std::pair<Section, Entry>> axes;
    for (const char* part : {"grid", "variants"}) {
      const Entry* found = top_.find(part);
      if (!found) continue;
      const Section section = top_.table(*found);
      if (section.entries().empty()) top_.fail(*found, "is empty, expected something to vary");
      for (const Entry& entry : section.entries()) axes.emplace_back(section, entry);
    }
    if (axes.empty()) top_.fail_at(top_.at(), "grid", "missing: the study varies nothing");
    std::stable_sort(axes.begin(), axes.end(),
                     [](const auto& a, const auto& b) { return a.second.at < b.second.at; });
    for (const auto& [section, entry] : axes) {
      for (const StudyAxis& other : study_.axes)
        if (other.name == entry.key) section.fail(entry, "is an axis already");
      study_.axes.push_back(section.join_path("").starts_with("grid") ? grid_axis(section, entry)
                                                                      : bundle_axis(section, entry));
    }
  }

  StudyAxis grid_axis(const Section& section, const Entry& entry) {
    StudyAxis axis{entry.key, {}, {}};
    option(section, entry);
    for (const toml::node& node : section.filled_array(entry)) {
      const StudyValue value = option_value(section, entry, node);
      if (std::find(axis.values.begin(), axis.values.end(), value) != axis.values.end())
        section.fail(entry, "'", io::printable_name(text(value)), "' is given twice");
      axis.values.push_back(value);
    }
    remember(section, entry, static_cast<std::ptrdiff_t>(study_.axes.size()), -1);
    return axis;
  }

  StudyAxis bundle_axis(const Section& variants, const Entry& axis_entry) {
    const auto index = static_cast<std::ptrdiff_t>(study_.axes.size());
    StudyAxis axis{axis_entry.key, {}, {}};
    const Section bundles = variants.table(axis_entry);
    if (bundles.entries().empty()) variants.fail(axis_entry, "is empty, expected at least one variant");
    for (const Entry& bundle : bundles.entries()) {
      const Section options = bundles.table(bundle);
      StudyValues values;
      for (const Entry& entry : options.entries()) {
        values.emplace_back(entry.key, option_value(options, entry, *entry.node));
        remember(options, entry, index, static_cast<std::ptrdiff_t>(axis.values.size()));
      }
      axis.values.emplace_back(bundle.key);
      axis.bundles.push_back(std::move(values));
    }
    return axis;
  }

  void check_cells() {
    const double cells = cell_count(study_);
    if (cells > static_cast<double>(kMostCells))
      top_.fail_at(top_.at(), "grid", cells, " cells, expected at most ", kMostCells);
    for_each_choice(study_, [&](const std::vector<std::size_t>& choice) {
      try {
        complete_inputs(study_.command, given_inputs(study_, choice));
      } catch (const Error& error) {
        blame(error.text(), choice);
      }
    });
  }

  // The text is about an option: its line is where this cell got the option from.
  [[noreturn]] void blame(const Text& said, const std::vector<std::size_t>& choice) const {
    for (const ValueOrigin& origin : origins_) {
      const bool of_cell =
          origin.axis < 0 || origin.value < 0 ||
          choice.at(static_cast<std::size_t>(origin.axis)) == static_cast<std::size_t>(origin.value);
      if (origin.option == said.subject() && of_cell)
        top_.fail_at(origin.at, origin.path, without_subject(said));
    }
    top_.fail_at(top_.find("command")->at, "", said.str());
  }

  Section top_;
  Study study_;
  std::vector<ValueOrigin> origins_;
};

std::string read_file(const std::filesystem::path& path) {
  const std::string shown = io::printable(path.string());
  std::ifstream file(path, std::ios::binary);
  const bool folder = std::filesystem::is_directory(path);
  if (!file || folder)
    throw Error(
        ErrorCode::environment,
        join("cannot read ", shown, folder ? ": it is a folder" : ": no such file, or no permission"));
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

Study parse_study(const std::string& text, const Text& file) {
  const toml::table table = parse_toml(text, file);
  Study study = Reader(table, file).read();
  study.source = text;
  return study;
}

Study read_study(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  const std::string file = io::printable(path.string());
  std::string source = read_file(path);
  parse_study(source, file);  // so that its own faults are named with its own lines
  for (const std::string& line : overrides) source = with_override(source, line, file);
  return parse_study(source, overrides.empty() ? Text(file) : message(file, " with ", option("set")));
}

}  // namespace headlens

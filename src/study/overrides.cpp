// --set key=value: the text of a study file, edited. Both texts are encoded, so that columns count bytes.
#include <algorithm>

#include "io/printable.hpp"
#include "study/study_file.hpp"
#include "study/toml_section.hpp"

namespace headlens {
namespace {

std::size_t offset_of(const std::string& text, toml::source_position at) {
  std::size_t offset = 0;
  for (toml::source_index line = 1; line < at.line; ++line) offset = text.find('\n', offset) + 1;
  return std::min(text.size(), offset + at.column - 1);
}

std::string region(const std::string& text, const toml::source_region& source) {
  const std::size_t from = offset_of(text, source.begin);
  return text.substr(from, offset_of(text, source.end) - from);
}

struct Assignment {
  std::vector<std::string> path;   // {"grid", "samples"}
  std::vector<std::string> words;  // the same as written, with quotes
  std::string value;               // as written
};

Assignment parse_assignment(const std::string& text, const Text& shown) {
  require(text.find_first_of("\r\n") == std::string::npos, shown, ": expected one line");
  const toml::table table = parse_encoded(text, shown);
  Assignment out;
  const toml::table* level = &table;
  while (true) {
    require(level->size() == 1, shown, ": expected one key=value, as in grid.samples=[64,128]");
    const auto [key, node] = *level->begin();
    out.path.emplace_back(key.str());
    out.words.push_back(region(text, key.source()));
    const toml::table* inner = node.as_table();
    if (!inner || inner->is_inline()) {
      out.value = region(text, node.source());
      return out;
    }
    level = inner;
  }
}

std::string edited(const std::string& text, const Assignment& set, const Text& file, const Text& shown) {
  const toml::table table = parse_encoded(text, file);
  const toml::table* level = &table;
  std::string header;
  for (std::size_t i = 0; i + 1 < set.path.size(); ++i) {
    header += (i > 0 ? "." : "") + set.words[i];
    if (level) level = (*level)[set.path[i]].as_table();
    require(!level || !level->is_inline(), shown, ": ", io::printable_name(decoded(header)),
            " is written on one line; set it as a whole");
  }
  const std::string line = set.words.back() + " = " + set.value + "\n";
  if (!level) return text + "\n[" + header + "]\n" + line;
  if (const toml::node* old = level->get(set.path.back())) {
    const bool headed = (old->is_table() && !old->as_table()->is_inline()) || old->is_array_of_tables();
    require(!headed, shown, ": ", io::printable_name(decoded(set.path.back())),
            " has a header of its own; set its keys one by one");
    const std::size_t from = offset_of(text, old->source().begin), to = offset_of(text, old->source().end);
    return text.substr(0, from) + set.value + text.substr(to);
  }
  if (level == &table) return line + text;
  const std::size_t end = text.find('\n', offset_of(text, level->source().begin));
  if (end == std::string::npos) return text + "\n" + line;
  return text.substr(0, end + 1) + line + text.substr(end + 1);
}

}  // namespace

std::string with_override(const std::string& text, const std::string& override_text, const Text& file) {
  const Text shown = message(option("set", io::printable_name(override_text)));
  const Assignment set = parse_assignment(encoded(override_text, shown), shown);
  return decoded(edited(encoded(text, file), set, file, shown));
}

}  // namespace headlens

// --set key=value: the text of a study file, edited.
#include <algorithm>

#include "io/printable.hpp"
#include "study/study_file.hpp"
#include "study/toml_section.hpp"

namespace headlens {
namespace {

// toml++ counts columns in characters, not bytes; both from 1.
std::size_t offset_of(const std::string& text, toml::source_position at) {
  std::size_t offset = 0;
  for (toml::source_index line = 1; line < at.line; ++line) offset = text.find('\n', offset) + 1;
  for (toml::source_index column = 1; column < at.column && offset < text.size(); ++column) {
    ++offset;
    while (offset < text.size() && (static_cast<unsigned char>(text[offset]) & 0xc0U) == 0x80U) ++offset;
  }
  return std::min(offset, text.size());
}

struct Assignment {
  std::vector<std::string> path;  // {"grid", "samples"}
  std::string key_text, value_text;
};

Assignment parse_assignment(const std::string& text) {
  const std::string shown = "--set " + io::printable_name(text);
  require(text.find_first_of("\r\n") == std::string::npos, shown, ": expected one line");
  const toml::table table = parse_toml(text, shown);
  Assignment out;
  const toml::table* level = &table;
  while (true) {
    require(level->size() == 1, shown, ": expected one key=value, as in grid.samples=[64,128]");
    const auto [key, node] = *level->begin();
    out.path.emplace_back(key.str());
    const toml::table* inner = node.as_table();
    if (inner && !inner->is_inline()) {
      level = inner;
      continue;
    }
    const std::size_t from = offset_of(text, node.source().begin), to = offset_of(text, node.source().end);
    out.value_text = text.substr(from, to - from);
    const std::size_t last = offset_of(text, key.source().begin), end = offset_of(text, key.source().end);
    out.key_text = text.substr(last, end - last);
    return out;
  }
}

}  // namespace

std::string with_override(const std::string& text, const std::string& override_text,
                          const std::string& file) {
  const Assignment set = parse_assignment(override_text);
  const toml::table table = parse_toml(text, file);
  const toml::table* level = &table;
  std::string header;
  for (std::size_t i = 0; i + 1 < set.path.size(); ++i) {
    header += (i > 0 ? "." : "") + set.path[i];
    if (level) level = (*level)[set.path[i]].as_table();
    require(!level || !level->is_inline(), "--set ", io::printable_name(override_text), ": ",
            io::printable_name(header), " is written on one line; set it as a whole");
  }
  const std::string line = set.key_text + " = " + set.value_text + "\n";
  if (!level) return text + "\n[" + header + "]\n" + line;
  if (const toml::node* old = level->get(set.path.back())) {
    const bool headed = (old->is_table() && !old->as_table()->is_inline()) || old->is_array_of_tables();
    require(!headed, "--set ", io::printable_name(override_text), ": ", io::printable_name(set.path.back()),
            " has a header of its own; set its keys one by one");
    const std::size_t from = offset_of(text, old->source().begin), to = offset_of(text, old->source().end);
    return text.substr(0, from) + set.value_text + text.substr(to);
  }
  if (level == &table) return line + text;
  const std::size_t end = text.find('\n', offset_of(text, level->source().begin));
  if (end == std::string::npos) return text + "\n" + line;
  return text.substr(0, end + 1) + line + text.substr(end + 1);
}

}  // namespace headlens

#include "study/toml_section.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "io/printable.hpp"

namespace headlens {
namespace {

using io::printable_name;

constexpr char kMark = '@';  // means nothing in TOML outside of text

// Edits that turn a into b: insert, remove, replace.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t corner = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = corner + (a[i - 1] == b[j - 1] ? 0 : 1);
      corner = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

// Bytes of the UTF-8 character at the front; 0 if there is none. No overlong forms, surrogates or points
// above 10FFFF.
std::size_t character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0U) != 0x80U) return 0;
  const unsigned second = byte(1);
  const bool wrong = (lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) ||
                     (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f);
  return wrong ? 0 : length;
}

// The character behind a mark at the front of `text`, and the bytes of the mark; "" if there is none: an
// escape of TOML may have made something that looks like one.
std::pair<std::string, std::size_t> marked(std::string_view text) {
  const std::size_t end = std::min(text.find(';'), text.size());
  std::string bytes;
  for (std::size_t i = 1; i + 1 < end && bytes.size() < 4; i += 2) {
    unsigned byte = 0;
    const char* digits = text.data() + i;
    if (std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2) return {};
    bytes += static_cast<char>(byte);
  }
  const bool whole = end < text.size() && end == 1 + 2 * bytes.size() && !bytes.empty();
  const bool needed = whole && character(bytes) == bytes.size() && (bytes.size() > 1 || bytes[0] == kMark);
  return needed ? std::pair(bytes, end + 1) : std::pair<std::string, std::size_t>{};
}

}  // namespace

std::string encoded(std::string_view text, const Text& file) {
  std::string out;
  Index line = 1;
  while (!text.empty()) {
    const std::size_t length = character(text);
    require(length > 0, file, ":", line, ": byte ", static_cast<int>(static_cast<unsigned char>(text[0])),
            " is not UTF-8");
    line += text[0] == '\n' ? 1 : 0;
    if (length == 1 && text[0] != kMark) {
      out += text[0];
    } else {
      out += kMark;
      for (const char c : text.substr(0, length)) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
      out += ';';
    }
    text.remove_prefix(length);
  }
  return out;
}

std::string decoded(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto [bytes, length] = text[0] == kMark ? marked(text) : std::pair<std::string, std::size_t>{};
    out += length > 0 ? bytes : std::string(1, text[0]);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

std::string suggestion(std::string_view found, const std::vector<std::string>& allowed) {
  if (found.size() > 100) return "";
  const auto nearer = [&](const std::string& a, const std::string& b) {
    return distance(found, a) < distance(found, b);
  };
  const auto best = std::min_element(allowed.begin(), allowed.end(), nearer);
  if (best == allowed.end() || distance(found, *best) > std::max<std::size_t>(2, best->size() / 3)) return "";
  return " (did you mean '" + *best + "'?)";
}

toml::table parse_encoded(const std::string& text, const Text& file) {
  try {
    return toml::parse(std::string_view(text));
  } catch (const toml::parse_error& error) {
    throw Error(ErrorCode::misuse, message(file, ":", error.source().begin.line,
                                           ": not TOML: ", io::printable(error.description(), 300)));
  }
}

toml::table parse_toml(const std::string& text, const Text& file) {
  require(text.size() <= (std::size_t{1} << 20), file, ": ", text.size(),
          " bytes, expected a study of at most 1 MiB");
  return parse_encoded(encoded(text, file), file);
}

Section::Section(const toml::table& table, Text file, std::string path)
    : file_(std::move(file)), path_(std::move(path)), at_(table.source().begin) {
  for (const auto& [key, node] : table) entries_.push_back({decoded(key.str()), key.source().begin, &node});
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return a.at < b.at; });
}

const Section::Entry* Section::find(std::string_view key) const {
  for (const Entry& entry : entries_)
    if (entry.key == key) return &entry;
  return nullptr;
}

std::string Section::join_path(const std::string& key) const {
  const std::string shown = printable_name(key);
  return path_.empty() ? shown : path_ + "." + shown;
}

void Section::allow_only(const std::vector<std::string>& keys) const {
  for (const Entry& entry : entries_)
    if (std::find(keys.begin(), keys.end(), entry.key) == keys.end())
      fail(entry, "unknown key", suggestion(entry.key, keys));
}

std::string Section::word(std::string_view key, std::string_view fallback) const {
  const Entry* entry = find(key);
  if (!entry) return std::string(fallback);
  const auto found = entry->node->value<std::string>();
  if (!entry->node->is_string() || !found) fail(*entry, "expected text in quotes");
  return decoded(*found);
}

std::string Section::required_word(std::string_view key) const {
  if (!find(key)) fail_at(at_, join_path(std::string(key)), "missing");
  std::string found = word(key);
  if (found.empty()) fail(*find(key), "is empty");
  return found;
}

double Section::number(std::string_view key) const {
  const Entry* entry = find(key);
  if (!entry) return 0;
  const auto found = entry->node->is_number() ? entry->node->value<double>() : std::nullopt;
  if (!found || !std::isfinite(*found)) fail(*entry, "expected a number");
  return *found;
}

Section Section::table(const Entry& entry) const {
  if (!entry.node->is_table()) fail(entry, "expected a table");
  return {*entry.node->as_table(), file_, join_path(entry.key)};
}

StudyValue Section::value(const Entry& entry, const toml::node& node) const {
  if (const auto* whole = node.as_integer()) return whole->get();
  if (const auto* real = node.as_floating_point()) return real->get();
  if (const auto* flag = node.as_boolean()) return flag->get();
  if (const auto* text = node.as_string()) return decoded(text->get());
  fail(entry, "expected a number, true, false or text");
}

const toml::array& Section::filled_array(const Entry& entry) const {
  const toml::array* array = entry.node->as_array();
  if (!array) fail(entry, "expected an array: [..]");
  if (array->empty()) fail(entry, "is empty, expected at least one value");
  return *array;
}

}  // namespace headlens

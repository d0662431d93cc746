// TOML tables read with errors that name the file, the line and the key: "study.toml:12: grid.samples: ...".
#pragma once

#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include <string>
#include <string_view>
#include <vector>

#include "headlens/error.hpp"
#include "headlens/study.hpp"

namespace headlens {

// The nearest of `allowed` in edits, as " (did you mean 'x'?)"; "" if none is near.
std::string suggestion(std::string_view found, const std::vector<std::string>& allowed);

// toml++ 3.3 sees ASCII only: for some other characters its behaviour is undefined. "é" becomes "@c3a9;" and
// "@" becomes "@40;", which stays text inside quotes and is refused outside. Error for text that is not
// UTF-8.
std::string encoded(std::string_view text, const Text& file);
std::string decoded(std::string_view text);
toml::table parse_encoded(const std::string& text, const Text& file);

toml::table parse_toml(const std::string& text, const Text& file);  // keys and text in it are encoded

class Section {
 public:
  struct Entry {
    std::string key;
    toml::source_position at;
    const toml::node* node = nullptr;
  };

  Section(const toml::table& table, Text file, std::string path);

  const std::vector<Entry>& entries() const { return entries_; }  // in the order of the file
  const Entry* find(std::string_view key) const;
  void allow_only(const std::vector<std::string>& keys) const;
  std::string word(std::string_view key, std::string_view fallback = "") const;
  std::string required_word(std::string_view key) const;
  double number(std::string_view key) const;  // 0 if missing
  Section table(const Entry& entry) const;

  // Of one entry.
  StudyValue value(const Entry& entry, const toml::node& node) const;
  const toml::array& filled_array(const Entry& entry) const;

  template <class... Parts>
  [[noreturn]] void fail(const Entry& entry, const Parts&... parts) const {
    fail_at(entry.at, join_path(entry.key), parts...);
  }
  template <class... Parts>
  [[noreturn]] void fail_at(toml::source_position at, const std::string& key, const Parts&... parts) const {
    throw Error(ErrorCode::misuse,
                message(file_, ":", at.line, ": ", key, key.empty() ? "" : ": ", parts...));
  }
  std::string join_path(const std::string& key) const;
  toml::source_position at() const { return at_; }

 private:
  std::vector<Entry> entries_;
  Text file_;
  std::string path_;
  toml::source_position at_;
};

}  // namespace headlens

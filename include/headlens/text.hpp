// A message of the library. Options stand in it by their bare names ("ridge", "max-heads"), and where they
// stand is kept, so that each front end can show them as its users write them: --max-heads, max_heads.
#pragma once

#include <functional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace headlens {

// An option inside a text, with a value or without one: "loss", "loss logistic". A flag has the value "true"
// or "false".
struct Mention {
  std::string option, value;

  std::string bare() const;  // "loss logistic"; of flags "sequence" and "no-polish"
};

inline Mention option(std::string name, std::string value = "") {
  return {std::move(name), std::move(value)};
}

using Spelling = std::function<std::string(const Mention&)>;

// "--loss logistic", "--sequence", "--no-polish": as files have it that the program and Python both write.
std::string on_command_line(const Mention& mention);

class Text {
 public:
  Text() = default;
  Text(std::string words) : words_(std::move(words)) {}  // NOLINT(google-explicit-constructor): plain words
  Text(std::string_view words) : words_(words) {}        // NOLINT(google-explicit-constructor)
  Text(const char* words) : words_(words) {}             // NOLINT(google-explicit-constructor)

  // With bare names.
  const std::string& str() const { return words_; }
  operator std::string_view() const { return words_; }  // NOLINT(google-explicit-constructor)
  bool empty() const { return words_.empty(); }

  // As the users of a front end write them.
  std::string spelled(const Spelling& spelling) const;

  // The option that the text is about: "ridge" of "ridge: -1 given, ..."; empty if the text begins otherwise.
  std::string_view subject() const;

  Text& operator+=(const Text& more);

 private:
  struct Place {
    std::size_t at = 0, size = 0;
    Mention mention;
  };
  std::string words_;
  std::vector<Place> places_;

  friend class TextWriter;
};

// Puts a text together from words, numbers, mentions and other texts.
class TextWriter {
 public:
  template <class Part>
  void add(const Part& part) {
    words_ << part;
  }
  void add(const Mention& mention);
  void add(const Text& text);
  Text finish() const;

 private:
  std::ostringstream words_;
  std::vector<Text::Place> places_;
};

// message("Raise ", option("max-heads"), " (now ", limit, ").")
template <class... Parts>
Text message(const Parts&... parts) {
  TextWriter writer;
  (writer.add(parts), ...);
  return writer.finish();
}

}  // namespace headlens

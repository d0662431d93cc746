// A parser of just the Python that NumPy writes into its headers: strict, without escapes or nesting.
#include <fmt/format.h>

#include <charconv>
#include <set>

#include "headlens/error.hpp"
#include "io/allocation.hpp"
#include "io/npy.hpp"
#include "io/printable.hpp"

namespace headlens::io {
namespace {

class FieldParser {
 public:
  FieldParser(std::string_view text, const std::string& label) : text_(text), label_(label) {}

  NpyFields parse() {
    take('{');
    while (peek() != '}') {
      parse_entry();
      if (peek() != '}') take(',');
    }
    take('}');
    if (peek() != '\0' || at_ < text_.size()) fail("has text after its closing brace");
    for (const char* key : {"descr", "fortran_order", "shape"})
      if (!seen_.contains(key)) fail(fmt::format("has no '{}'", key));
    return std::move(fields_);
  }

 private:
  void parse_entry() {
    const std::string key = parse_string();
    if (!seen_.insert(key).second) fail(fmt::format("has '{}' twice", printable_name(key)));
    take(':');
    if (key == "descr") {
      fields_.descr = parse_descr();
    } else if (key == "fortran_order") {
      fields_.fortran_order = parse_truth();
    } else if (key == "shape") {
      fields_.shape = parse_shape();
    } else {
      fail(fmt::format("has the unknown key '{}'", printable_name(key)));
    }
  }

  std::string parse_descr() {
    if (peek() != '[' && peek() != '(') return parse_string();
    const std::string_view found = text_.substr(at_, text_.find(']', at_) - at_ + 1);
    fail(fmt::format("describes a structured array (descr {}); save each field as its own array",
                     printable_name(found)));
  }

  bool parse_truth() {
    peek();
    for (const std::string_view word : {"True", "False"}) {
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      return word == "True";
    }
    fail("has a fortran_order that is neither True nor False");
  }

  std::vector<Index> parse_shape() {
    std::vector<Index> shape;
    take('(');
    while (peek() != ')') {
      shape.push_back(parse_dimension());
      if (shape.size() > max_rank) fail(fmt::format("has a shape of more than {} dimensions", max_rank));
      // (3) is a number in Python; only (3,) is a tuple.
      if (peek() != ')' || shape.size() == 1) take(',');
    }
    take(')');
    return shape;
  }

  Index parse_dimension() {
    peek();
    Index value = 0;
    const char* first = text_.data() + at_;
    const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), value);
    if (error == std::errc::result_out_of_range) fail("has a dimension too large for this machine");
    if (error != std::errc()) fail_at("a dimension");
    if (value < 0) fail(fmt::format("has the negative dimension {}", value));
    at_ += static_cast<std::size_t>(end - first);
    return value;
  }

  std::string parse_string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') fail_at("a quoted string");
    const std::size_t end = text_.find(quote, ++at_);
    if (end == std::string_view::npos) fail("has an unfinished string");
    std::string value(text_.substr(at_, end - at_));
    if (value.find('\\') != std::string::npos) fail("has a string with a backslash");
    at_ = end + 1;
    return value;
  }

  // The next character that is not blank, or NUL at the end.
  char peek() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos)
      ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  void take(char wanted) {
    if (peek() != wanted || at_ >= text_.size()) fail_at(fmt::format("'{}'", wanted));
    ++at_;
  }

  [[noreturn]] void fail_at(const std::string& wanted) {
    if (at_ >= text_.size()) fail(fmt::format("ends where {} should be", wanted));
    fail(fmt::format("has '{}' at character {} where {} should be", printable(text_.substr(at_, 1)), at_,
                     wanted));
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::misuse, fmt::format("{}: the NumPy header {}", label_, what));
  }

  std::string_view text_;
  const std::string& label_;
  std::size_t at_ = 0;
  std::set<std::string> seen_;
  NpyFields fields_;
};

}  // namespace

NpyFields parse_npy_fields(std::string_view literal, const std::string& label) {
  return FieldParser(literal, label).parse();
}

}  // namespace headlens::io

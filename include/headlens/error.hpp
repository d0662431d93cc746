// The two ways a call can end without a result.
//
// Error: the caller or the environment is at fault (bad shape, NaN in the input, unreadable file, too little
//        memory). The text names the option, file or array, what was found and what was expected.
// Bug:   an invariant of headlens itself is broken; please report it.
//
// A numerical outcome (not_positive_definite, stalled, needs_more_examples) is neither: it is a result with a
// status. The library never prints, exits or aborts.
#pragma once

#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>

#include "headlens/text.hpp"

namespace headlens {

enum class ErrorCode {
  misuse,       // the arguments or the contents of the input
  environment,  // files, permissions, the machine
  memory,       // the predicted peak exceeds the budget
  interrupted,  // Execution::cancelled said so
};

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, Text text)
      : std::runtime_error(text.str()), code_(code), text_(std::make_shared<const Text>(std::move(text))) {}
  ErrorCode code() const { return code_; }
  const Text& text() const { return *text_; }  // what() has the bare names of options

 private:
  ErrorCode code_;
  std::shared_ptr<const Text> text_;  // shared, for an exception must be copied without throwing
};

class Bug : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

template <class... Parts>
std::string join(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

// require(ridge >= 0, option("ridge"), ": ", ridge, " given, expected 0 or more")
template <class... Parts>
void require(bool holds, const Parts&... parts) {
  if (!holds) throw Error(ErrorCode::misuse, message(parts...));
}

template <class... Parts>
void ensure(bool holds, const Parts&... parts) {
  if (!holds) throw Bug(join("headlens bug: ", parts...));
}

}  // namespace headlens

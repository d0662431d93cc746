#include "options/words.hpp"

#include <algorithm>

#include "headlens/error.hpp"

namespace headlens {
namespace options {

std::vector<std::string> split(std::string_view words) {
  std::vector<std::string> out;
  while (!words.empty()) {
    const std::size_t end = std::min(words.find('|'), words.size());
    out.emplace_back(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return out;
}

std::string word(std::string_view words, int place) {
  return split(words).at(static_cast<std::size_t>(place));
}

namespace {

template <class Enum>
Enum find(const char* name, const std::string& text) {
  const std::vector<std::string> words = split(kWords<Enum>);
  const auto found = std::find(words.begin(), words.end(), text);
  if (found != words.end()) return static_cast<Enum>(found - words.begin());
  std::string allowed;
  for (const std::string& one : words) allowed += (allowed.empty() ? "" : ", ") + one;
  throw Error(ErrorCode::misuse, message(option(name), ": '", text, "' given, expected one of ", allowed));
}

}  // namespace
}  // namespace options

using options::word_of;

std::string name(ModelKind kind) { return word_of(kind); }
std::string name(Score score) { return word_of(score); }
std::string name(Positions positions) { return word_of(positions); }
std::string name(Precision precision) { return word_of(precision); }
std::string name(BackendChoice choice) { return word_of(choice); }
std::string name(Loss loss) { return word_of(loss); }
std::string name(Solver solver) { return word_of(solver); }
std::string name(Task task) { return word_of(task); }
std::string name(TaskMatrix matrix) { return word_of(matrix); }
std::string name(Inputs inputs) { return word_of(inputs); }
std::string name(Mask mask) { return word_of(mask); }
std::string name(RotaryLayout layout) { return word_of(layout); }
std::string name(HardKind kind) { return word_of(kind); }
std::string name(WeightsFormat format) { return word_of(format); }
std::string name(MatchVerdict verdict) { return word_of(verdict); }
std::string name(MatchNull null) { return word_of(null); }
std::string name(RecoverMethod method) { return word_of(method); }
std::string name(RecoverStart start) { return word_of(start); }
std::string name(SculptForm form) { return word_of(form); }
std::string name(SpanForm form) { return word_of(form); }

template <>
BackendChoice parse<BackendChoice>(const std::string& text) {
  return options::find<BackendChoice>("backend", text);
}
template <>
ModelKind parse<ModelKind>(const std::string& text) {
  return options::find<ModelKind>("model", text);
}
template <>
Score parse<Score>(const std::string& text) {
  return options::find<Score>("score", text);
}
template <>
Positions parse<Positions>(const std::string& text) {
  return options::find<Positions>("positions", text);
}
template <>
Precision parse<Precision>(const std::string& text) {
  return options::find<Precision>("precision", text);
}
template <>
Loss parse<Loss>(const std::string& text) {
  return options::find<Loss>("loss", text);
}

}  // namespace headlens

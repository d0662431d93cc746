#include "report/vocabulary.hpp"

#include <algorithm>
#include <map>

namespace headlens::report {
namespace {

std::string spaced(std::string words) {
  std::replace(words.begin(), words.end(), '-', ' ');
  return words;
}

struct Unit {
  std::string before, after, after_one;
};

Unit unit_of(const std::string& axis) {
  static const std::map<std::string, Unit> known{
      {"samples", {"", " training sets", " training set"}},
      {"heads", {"", " heads", " head"}},
      {"keys", {"", " keys", " key"}},
      {"count", {"", " examples", " example"}},
      {"tokens", {"", " tokens", " token"}},
      {"examples-per-unknown", {"", " examples per unknown", " example per unknown"}},
      {"degree", {"degree ", "", ""}},
      {"dim", {"dimension ", "", ""}},
  };
  const auto found = known.find(axis);
  return found == known.end() ? Unit{spaced(axis) + " = ", "", ""} : found->second;
}

}  // namespace

std::string term(const std::string& name) {
  static const std::map<std::string, std::string> known{{"samples", "training sets"},
                                                        {"nmse", "error (nmse)"},
                                                        {"mse", "squared error (mse)"},
                                                        {"train-loss", "loss on the training sets"},
                                                        {"chosen-ridge", "penalty"},
                                                        {"fit-seconds", "time of the fit (seconds)"},
                                                        {"dim", "dimension"},
                                                        {"count", "examples"},
                                                        {"worst-error", "largest error of a head"},
                                                        {"train-error", "training error"},
                                                        {"held-out-error", "held-out error"},
                                                        {"recover-seconds", "time to an answer (seconds)"},
                                                        {"search-seconds", "time of the search (seconds)"},
                                                        {"sq-dimension", "SQ dimension"},
                                                        {"hidden-sets", "hidden sets to choose from"}};
  const auto found = known.find(name);
  return found == known.end() ? spaced(name) : found->second;
}

std::string values_of(const std::string& axis) {
  const bool counted = unit_of(axis).before.empty() && axis != "examples-per-unknown";
  return (counted ? "numbers of " : "values of ") + term(axis);
}

std::string success_of(const std::string& truth) {
  if (truth == "success") return "the layer is recovered";
  if (truth == "labels-learned") return "the labels are learned";
  if (truth == "set-found") return "the hidden set is found";
  return term(truth) + " is true";
}

std::string with_unit(const std::string& axis, const std::string& values) {
  if (axis == "heads" && values == "inf") return "infinitely many heads";
  const Unit unit = unit_of(axis);
  return unit.before + values + (values == "1" ? unit.after_one : unit.after);
}

std::string without_unit(const std::string& axis, const std::string& label) {
  const Unit unit = unit_of(axis);
  for (const std::string& after : {unit.after, unit.after_one})
    if (label.size() > unit.before.size() + after.size() && label.starts_with(unit.before) &&
        label.ends_with(after))
      return label.substr(unit.before.size(), label.size() - unit.before.size() - after.size());
  return label;
}

std::string label(const std::string& axis, const StudyValue& value) {
  const std::string words = text(value);
  const bool word = std::holds_alternative<std::string>(value) && words != "inf";
  return word ? words : with_unit(axis, words);
}

}  // namespace headlens::report

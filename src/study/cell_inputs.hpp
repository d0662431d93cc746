// A cell's inputs as the options of the calls that it makes.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>

#include "headlens/error.hpp"
#include "headlens/fit.hpp"
#include "headlens/hardness.hpp"
#include "headlens/layer.hpp"
#include "headlens/recover.hpp"
#include "headlens/study.hpp"
#include "headlens/tasks.hpp"
#include "io/printable.hpp"

namespace headlens {

// Values by name, where a missing one is a Bug: complete_inputs() has put all there that apply.
class NamedInputs {
 public:
  explicit NamedInputs(const StudyValues& values) : values_(values.begin(), values.end()) {}

  bool has(const std::string& name) const { return values_.contains(name); }
  std::int64_t whole(const std::string& name) const { return std::get<std::int64_t>(values_.at(name)); }
  double real(const std::string& name) const { return std::get<double>(values_.at(name)); }
  bool flag(const std::string& name) const { return std::get<bool>(values_.at(name)); }
  const std::string& word(const std::string& name) const { return std::get<std::string>(values_.at(name)); }

  std::optional<double> real_or_auto(const std::string& name) const;
  const StudyValue& value(const std::string& name) const { return values_.at(name); }

  template <class Enum>
  Enum choice(const std::string& key, std::initializer_list<Enum> all) const {
    std::string allowed;
    for (const Enum value : all) {
      if (headlens::name(value) == word(key)) return value;
      allowed += (allowed.empty() ? "" : ", ") + headlens::name(value);
    }
    throw Error(ErrorCode::misuse, message(option(key), ": '", io::printable_name(word(key)),
                                           "' given, expected one of ", allowed));
  }

 private:
  std::map<std::string, StudyValue> values_;
};

Task task_of(const NamedInputs& inputs);

// The seeds of target, training sets, test sets and heads come from the cell's seed alone, so models of one
// cell group see the same data, and fewer samples are the first of more.
struct FitInputs {
  TaskOptions train, test;
  FitOptions fit;
};
FitInputs fit_inputs(const StudyValues& inputs, std::uint64_t seed);
// The scales of the heads are those that theory knows, whether given by value or left out; brfa may have any
// bias scale.
bool has_usual_scales(const FitInputs& cell);

struct RecoverInputs {
  TeacherOptions teacher;           // of a generic layer
  std::optional<HardOptions> hard;  // instead of it
  double flips = 0;                 // of a hard layer's labels
  ExampleOptions examples;
  RecoverOptions recover;
};
RecoverInputs recover_inputs(const StudyValues& inputs, std::uint64_t seed);

}  // namespace headlens

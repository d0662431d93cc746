#include "study/cell_options.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <utility>

#include "headlens/error.hpp"
#include "headlens/options.hpp"
#include "io/printable.hpp"
#include "study/cell_inputs.hpp"

namespace headlens {
namespace {

using Kind = ValueKind;

// A row of the table of a struct.
template <class Options>
CellOption from(std::string_view name) {
  const Option<Options>& row = option_of<Options>(name);
  const OptionInfo& info = row.info;
  const std::string shown = option_text(Options{}, row);
  const bool with_word = !info.nothing.empty();
  CellOption out{info.name, Kind::word, shown, info.help.str()};
  if (info.kind == OptionKind::flag) out = {out.name, Kind::flag, shown == "true", out.help};
  if (info.kind == OptionKind::whole) out.kind = with_word ? Kind::whole_or_word : Kind::whole;
  if (info.kind == OptionKind::real) out.kind = with_word ? Kind::real_or_word : Kind::real;
  if (shown == info.nothing) return out;
  if (info.kind == OptionKind::whole) out.fallback = read_whole({.name = info.name}, shown);
  if (info.kind == OptionKind::real) out.fallback = read_real({.name = info.name}, shown);
  return out;
}

// A row that means something else, or more, in a study.
template <class Options>
CellOption from(std::string_view name, std::string help, std::string_view as = "") {
  CellOption out = from<Options>(name);
  out.help = std::move(help);
  if (!as.empty()) out.name = as;
  return out;
}

CellOption silent(CellOption option) {
  option.silent = true;
  return option;
}

std::string word(const char* text) { return text; }

const std::vector<CellOption>& fit_options() {
  using T = TaskOptions;
  using F = FeatureOptions;
  static const std::vector<CellOption> options{
      from<T>("task", "power-mean, correlation, native, query-power, mixture or ordered"),
      from<T>("dim"),
      {"keys", Kind::whole_or_word, std::int64_t{16},
       "keys per set: a number, or \"4:32\" for ragged sets of 4 to 32 keys"},
      from<T>("degree"),
      from<T>("pure"),
      from<T>("matrix"),
      from<T>("weight"),
      from<T>("noise", "standard deviation of Gaussian noise on the training targets"),
      from<T>("count", "sets to train on", "samples"),
      {"test-samples", Kind::whole, std::int64_t{4096}, "sets to measure on"},
      from<F>("model"),
      from<F>("heads"),
      from<F>("score"),
      from<F>("positions"),
      from<F>("bias-scale"),
      from<F>("weight-scale"),
      from<F>("precision"),
      from<FitOptions>("loss", "squared, or huber"),
      from<FitOptions>("huber-delta"),
      from<FitOptions>("ridge"),
      silent(from<FitOptions>("norm-ball",
                              "\"K1,K2\": sum |v_m| <= K1 and sum |v_m|^2 <= K2, or theory: that of the "
                              "target's complexity; replaces an automatic ridge")),
      from<FitOptions>("intercept"),
      from<FitOptions>("solver"),
      silent({"mean", Kind::word, word("identity"),
              "matrix of a task in the mean of the heads: identity, shift or random"}),
      silent(from<F>("head-rank"))};
  return options;
}

const std::vector<CellOption>& recover_options() {
  using T = TeacherOptions;
  using E = ExampleOptions;
  using R = RecoverOptions;
  using H = HardOptions;
  static const std::vector<CellOption> options{
      from<T>("heads"),
      from<T>("dim"),
      from<T>("outputs", "outputs per token; 0: as dim"),
      from<T>("scale"),
      from<T>("rank", "rank of Theta and W; 0: full"),
      from<E>("tokens"),
      from<E>("inputs"),
      from<E>("noise"),
      from<E>("count"),
      {"examples-per-unknown", Kind::real, 0.0, "c equations per unknown decide count; 0: count is given"},
      {"heads-known", Kind::flag, true, "false: the number of heads is found from the data"},
      from<R>("max-heads", "most heads that are tried where the number is not known"),
      from<R>("starts"),
      from<R>("method"),
      from<R>("start"),
      silent({"layer", Kind::word, word("generic"), "generic, hard-parity or hard-rounding"}),
      from<H>("sharpness", "of a hard layer: a step is off by 2 exp(-sharpness/2) at most"),
      from<H>("modulus", "of the hidden sum of hard-rounding"),
      from<H>("levels", "values of the label of hard-rounding, 2 to modulus"),
      {"flips", Kind::real, 0.0, "of a hard layer: share of examples that get the labels of a neighbour"},
      silent({"time-limit", Kind::real, 0.0, "seconds per cell; 0: none"}),
      silent({"factor-rank", Kind::whole_or_word, word("auto"),
              "rank of the factors that recovery looks for: auto, full or a number"}),
      silent({"width", Kind::whole_or_word, word("auto"),
              "hidden coordinates of hard-rounding: a number, or auto (half of heads)"})};
  return options;
}

const char* kind_name(Kind kind) {
  constexpr const char* names[] = {"a whole number",           "a number",          "a word", "true or false",
                                   "a whole number or a word", "a number or a word"};
  return names[static_cast<int>(kind)];
}

bool one_of(std::string_view option, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), option) != names.end();
}

std::string why_not_in_recover(std::string_view option, const NamedInputs& in) {
  const std::string &layer = in.word("layer"), &method = in.word("method");
  const bool generic = layer == "generic";
  if (option == "max-heads" && in.flag("heads-known")) return "the number of heads is known";
  if (one_of(option, {"start", "starts"}) && method != "varpro" &&
      !(option == "starts" && (method == "gradient" || method == "sculpt")))
    return "the method is " + method;
  const bool misplaced =
      (one_of(option, {"outputs", "scale", "rank", "tokens", "inputs"}) && !generic) ||
      (one_of(option, {"sharpness", "flips"}) && generic) ||
      (one_of(option, {"modulus", "levels", "width"}) && layer != name(HardKind::rounding));
  return misplaced ? "the layer is " + io::printable_name(layer) : "";
}

// Why an option means nothing beside the others; "" if it applies.
std::string why_not(std::string_view option, StudyCommand command, const NamedInputs& in) {
  if (command == StudyCommand::recover) return why_not_in_recover(option, in);
  const Task task = task_of(in);
  const bool correlates = task == Task::correlation || task == Task::mixture;
  const bool misplaced = (option == "degree" && task == Task::native) || (option == "pure" && !correlates) ||
                         (option == "matrix" && task != Task::correlation && task != Task::native) ||
                         (option == "weight" && task != Task::mixture);
  if (misplaced) return "the task is " + name(task);
  if (one_of(option, {"bias-scale", "mean", "head-rank"}) && in.word("model") == "mlp")
    return "the model is mlp";
  const bool around_zero = in.word("model") == "rfa" && !in.real_or_auto("bias-scale");
  if (option == "mean" && around_zero) return "the heads of rfa have mean 0";
  if (option == "huber-delta" && in.word("loss") != "huber") return "the loss is " + in.word("loss");
  return "";
}

// n = ceil(c unknowns / (k e)): c equations per unknown. Theta and W have m d (d + e), heads of rank r have m
// r (3 d + e) in factors. Hard layers have k = 2 and e = 1.
std::int64_t count_of(const NamedInputs& in) {
  const bool generic = in.word("layer") == "generic";
  const double c = in.real("examples-per-unknown");
  const auto d = static_cast<double>(in.whole("dim")),
             k = generic ? static_cast<double>(in.whole("tokens")) : 2;
  const double e = !generic ? 1 : in.whole("outputs") > 0 ? static_cast<double>(in.whole("outputs")) : d;
  const auto m = static_cast<double>(in.whole("heads")), r = static_cast<double>(in.whole("rank"));
  const double unknowns = generic && r > 0 ? m * r * (3 * d + e) : m * d * (d + e);
  const double count = std::ceil(c * unknowns / (k * e));
  require(c > 0 && count >= 1 && count < 1e12, option("examples-per-unknown"), ": ", c,
          " given, expected a number above 0");
  return static_cast<std::int64_t>(count);
}

// What the call itself would say of its options, in the words of the study file.
void check_method(const RecoverInputs& inputs) {
  const RecoverMethod method = inputs.recover.method;
  require(method != RecoverMethod::gradient || inputs.recover.heads, option("heads-known"),
          ": false given, expected true with method gradient");
  if (method != RecoverMethod::moments) return;
  require(!inputs.hard, option("method"),
          ": moments needs four tokens per example or more, a hard layer has two");
  require(inputs.examples.tokens >= 4, option("tokens"), ": ", inputs.examples.tokens,
          " given, expected 4 or more with method moments");
}

void check(StudyCommand command, const StudyValues& inputs) {
  if (command == StudyCommand::fit) {
    const FitInputs fit = fit_inputs(inputs, 0);
    fit.train.validate();
    require(fit.test.count >= 1, option("test-samples"), ": ", fit.test.count, " given, expected 1 or more");
    fit.fit.validate();
    const bool plain = fit.fit.features.kind == ModelKind::mlp;
    require(!plain || fit.train.min_keys == fit.train.max_keys, option("keys"),
            ": mlp needs sets of equal size");
    return;
  }
  const RecoverInputs recover = recover_inputs(inputs, 0);
  if (recover.hard)
    recover.hard->validate();
  else
    recover.teacher.validate();
  recover.examples.validate();
  check_method(recover);
  recover.recover.validate();
}

}  // namespace

const std::vector<CellOption>& options_of(StudyCommand command) {
  return command == StudyCommand::fit ? fit_options() : recover_options();
}

std::vector<StudyOption> study_options(StudyCommand command) {
  std::vector<StudyOption> out;
  for (const CellOption& option : options_of(command)) {
    const bool quoted = std::holds_alternative<std::string>(option.fallback);
    out.push_back({std::string(option.name), option.help,
                   quoted ? '"' + text(option.fallback) + '"' : text(option.fallback)});
  }
  return out;
}

const CellOption* find_option(StudyCommand command, std::string_view name) {
  for (const CellOption& option : options_of(command))
    if (option.name == name) return &option;
  return nullptr;
}

const std::vector<std::string>& quantities_of(StudyCommand command) {
  static const std::vector<std::string> fit{"outcome",  "nmse",       "mse",    "train-loss", "chosen-ridge",
                                            "residual", "iterations", "method", "fit-seconds"};
  static const std::vector<std::string> recover{
      "outcome",        "success",   "worst-error",    "held-out-error", "train-error",
      "heads-found",    "starts",    "steps",          "inner-steps",    "recover-seconds",
      "labels-learned", "set-found", "search-seconds", "sq-dimension",   "hidden-sets"};
  return command == StudyCommand::fit ? fit : recover;
}

StudyValue convert(const CellOption& option, const StudyValue& value) {
  const Kind kind = option.kind;
  const bool is_whole = std::holds_alternative<std::int64_t>(value);
  const bool real_wanted = kind == Kind::real || kind == Kind::real_or_word;
  if (is_whole && real_wanted) return static_cast<double>(std::get<std::int64_t>(value));
  const bool word_allowed = kind == Kind::word || kind == Kind::whole_or_word || kind == Kind::real_or_word;
  const bool fits = (is_whole && (kind == Kind::whole || kind == Kind::whole_or_word)) ||
                    (std::holds_alternative<double>(value) && real_wanted) ||
                    (std::holds_alternative<std::string>(value) && word_allowed) ||
                    (std::holds_alternative<bool>(value) && kind == Kind::flag);
  require(fits, headlens::option(std::string(option.name)), ": '", io::printable_name(text(value)),
          "' given, expected ", kind_name(kind));
  const auto* number = std::get_if<double>(&value);
  require(!number || std::isfinite(*number), headlens::option(std::string(option.name)), ": '", text(value),
          "' given, expected a finite number");
  return value;
}

StudyValues complete_inputs(StudyCommand command, const StudyValues& given) {
  std::map<std::string, StudyValue> known(given.begin(), given.end());
  StudyValues all;
  for (const CellOption& option : options_of(command)) {
    const auto found = known.find(std::string(option.name));
    all.emplace_back(option.name, found == known.end() ? option.fallback : convert(option, found->second));
  }
  if (known.contains("examples-per-unknown")) {
    require(!known.contains("count"), option("count"), ": given beside ", option("examples-per-unknown"),
            ", which decides it");
    const std::int64_t count = count_of(NamedInputs(all));
    for (auto& [option, value] : all)
      if (option == "count") value = count;
  }
  std::erase_if(all, [](const auto& item) { return item.first == "examples-per-unknown"; });
  const NamedInputs in(all);
  StudyValues inputs;
  for (const auto& item : all) {
    const std::string reason = why_not(item.first, command, in);
    require(reason.empty() || !known.contains(item.first), headlens::option(item.first),
            ": does not apply: ", reason);
    const CellOption& option = *find_option(command, item.first);
    if (reason.empty() && !(option.silent && item.second == option.fallback)) inputs.push_back(item);
  }
  check(command, inputs);
  return inputs;
}

}  // namespace headlens

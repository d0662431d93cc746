#include "study/cell_inputs.hpp"

#include <charconv>
#include <cmath>

#include "base/random.hpp"
#include "features/heads.hpp"
#include "headlens/options.hpp"
#include "headlens/theory.hpp"

namespace headlens {
namespace {

Index parse_key_count(const std::string& whole, std::string_view text) {
  Index value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc() && end == text.data() + text.size(), option("keys"), ": '",
          io::printable_name(whole), "' given, expected N or \"A:B\"");
  return value;
}

void read_keys(const StudyValue& value, TaskOptions& task) {
  if (const auto* count = std::get_if<std::int64_t>(&value)) {
    task.min_keys = task.max_keys = *count;
    return;
  }
  const auto& range = std::get<std::string>(value);
  const auto colon = range.find(':');
  task.min_keys = parse_key_count(range, std::string_view(range).substr(0, colon));
  task.max_keys = colon == std::string::npos
                      ? task.min_keys
                      : parse_key_count(range, std::string_view(range).substr(colon + 1));
}

// Those of these options that apply, by the table of the struct.
template <class Options>
void take(const NamedInputs& in, std::initializer_list<std::string_view> names, Options& options) {
  for (const std::string_view name : names)
    if (const std::string key(name); in.has(key))
      set_option(options, name, io::printable_name(text(in.value(key))));
}

void read_mean(const NamedInputs& in, const TaskOptions& task, FeatureOptions& features) {
  if (!in.has("mean")) return;
  const TaskMatrix mean = in.choice("mean", {TaskMatrix::identity, TaskMatrix::shift, TaskMatrix::random});
  features.mean = target_matrix(mean, task.dim, task.target_seed);
}

// "theory": the values of the smoothest representation of the target, v(W) / M for M heads W, have norms that
// sum to sqrt(B) at most and squares that sum to B / M, in the mean over heads.
std::optional<NormBall> read_norm_ball(const std::string& given, const FitInputs& cell) {
  if (given == "none") return std::nullopt;
  if (given == "theory") {
    const FeatureOptions& features = cell.fit.features;
    require(features.heads != kInfiniteHeads, option("norm-ball"),
            ": theory given, expected a number of heads");
    require(features.score == Score::relu && features.positions == Positions::none &&
                has_usual_scales(cell) && !features.mean && !features.head_rank,
            option("norm-ball"),
            ": theory given; theory knows relu scores without positions, and heads of the usual mean, "
            "scale and rank");
    const Theory theory =
        evaluate_theory({.task = cell.train,
                         .model = features.kind,
                         .bias_scale = features.kind == ModelKind::brfa ? features.bias_scale : std::nullopt,
                         .samples = {2}},
                        {});
    require(!theory.complexity_is_lower_bound, option("norm-ball"),
            ": theory given, but the complexity of this target is known from below only");
    return NormBall{std::sqrt(theory.complexity), theory.complexity / static_cast<double>(features.heads)};
  }
  NormBall ball;
  const auto comma = given.find(',');
  const char* end = given.data() + given.size();
  const auto first = std::from_chars(given.data(), end, ball.k1);
  const auto second =
      comma == std::string::npos ? first : std::from_chars(given.data() + comma + 1, end, ball.k2);
  require(comma != std::string::npos && first.ec == std::errc() && first.ptr == given.data() + comma &&
              second.ec == std::errc() && second.ptr == end && ball.k1 > 0 && ball.k2 > 0,
          option("norm-ball"), ": '", io::printable_name(given),
          "' given, expected none, theory or \"K1,K2\"");
  return ball;
}

std::uint64_t derived(std::uint64_t seed, std::string_view purpose) { return Stream(seed, purpose).bits(); }

// Empty for a generic layer. A parity of s pairs has 2 s heads; a rounding hides as many coordinates, or as
// `width` says, and has as many heads as it has jumps.
std::optional<HardOptions> hard_layer(const NamedInputs& in, std::uint64_t seed) {
  if (!in.has("layer")) return std::nullopt;
  const std::string& layer = in.word("layer");
  const bool parity = layer == name(HardKind::parity), rounding = layer == name(HardKind::rounding);
  require(parity || rounding, option("layer"), ": '", io::printable_name(layer),
          "' given, expected one of generic, hard-parity, hard-rounding");
  require(in.whole("heads") >= 2 && in.whole("heads") % 2 == 0, option("heads"), ": ", in.whole("heads"),
          " given, expected an even number: a hard layer has two for every hidden coordinate");
  const bool wide = in.has("width");
  const auto* width = wide ? std::get_if<std::int64_t>(&in.value("width")) : nullptr;
  require(!wide || (width && *width >= 1), option("width"), ": ", wide ? text(in.value("width")) : "",
          " given, expected 1 or more, or auto");
  HardOptions out{.kind = parity ? HardKind::parity : HardKind::rounding,
                  .dim = in.whole("dim"),
                  .size = wide ? *width : in.whole("heads") / 2,
                  .sharpness = in.real("sharpness"),
                  .seed = derived(seed, "study-layer")};
  require(out.size < out.dim, option(wide ? "width" : "heads"), ": ", wide ? out.size : 2 * out.size,
          " given, expected at most ",
          wide ? "dim - 1 = " : "2 (dim - 1) = ", (wide ? 1 : 2) * (out.dim - 1));
  const double flips = in.real("flips");
  require(flips >= 0 && flips <= 1, option("flips"), ": ", flips, " given, expected a share from 0 to 1");
  if (rounding) {
    out.modulus = in.whole("modulus");
    out.levels = in.whole("levels");
  }
  return out;
}

}  // namespace

std::optional<double> NamedInputs::real_or_auto(const std::string& name) const {
  const StudyValue& value = values_.at(name);
  if (const auto* number = std::get_if<double>(&value)) return *number;
  require(std::get<std::string>(value) == "auto", option(name), ": '", io::printable_name(text(value)),
          "' given, expected auto or a number");
  return std::nullopt;
}

bool has_usual_scales(const FitInputs& cell) {
  const FeatureOptions& given = cell.fit.features;
  const FeatureOptions usual = with_default_scales({.kind = given.kind}, cell.train.min_keys);
  return given.weight_scale.value_or(*usual.weight_scale) == *usual.weight_scale &&
         (given.kind == ModelKind::brfa || given.bias_scale.value_or(0) == 0);
}

Task task_of(const NamedInputs& in) {
  return in.choice("task", {Task::power_mean, Task::correlation, Task::native, Task::query_power,
                            Task::mixture, Task::ordered});
}

FitInputs fit_inputs(const StudyValues& inputs, std::uint64_t seed) {
  const NamedInputs in(inputs);
  FitInputs out;
  TaskOptions& task = out.train;
  take(in, {"task", "dim", "degree", "pure", "matrix", "weight", "noise"}, task);
  read_keys(in.value("keys"), task);
  require(in.whole("samples") >= 1, option("samples"), ": ", in.whole("samples"),
          " given, expected 1 or more");
  task.count = in.whole("samples");
  task.target_seed = derived(seed, "study-target");
  out.test = task;
  out.test.count = in.whole("test-samples");
  out.test.noise = 0;  // errors are against the target itself
  task.seed = derived(seed, "study-train");
  out.test.seed = derived(seed, "study-test");

  FeatureOptions& features = out.fit.features;
  take(in, {"model", "heads", "score", "positions", "bias-scale", "weight-scale", "head-rank", "precision"},
       features);
  read_mean(in, task, features);
  features.seed = derived(seed, "study-heads");
  out.fit.loss = in.choice("loss", {Loss::squared, Loss::huber});  // the tasks have no classes
  take(in, {"huber-delta", "ridge", "intercept", "solver"}, out.fit);
  if (in.has("norm-ball")) out.fit.norm_ball = read_norm_ball(in.word("norm-ball"), out);
  return out;
}

RecoverInputs recover_inputs(const StudyValues& inputs, std::uint64_t seed) {
  const NamedInputs in(inputs);
  RecoverInputs out;
  out.hard = hard_layer(in, seed);
  if (out.hard) {
    out.flips = in.real("flips");
    out.examples.tokens = 2;
  } else {
    take(in, {"heads", "dim", "scale"}, out.teacher);
    out.teacher.outputs = in.whole("outputs");  // 0: dim
    out.teacher.rank = in.whole("rank");        // 0: full
    out.teacher.seed = derived(seed, "study-layer");
    take(in, {"tokens", "inputs"}, out.examples);
  }
  take(in, {"count", "noise"}, out.examples);
  out.examples.seed = derived(seed, "study-examples");
  if (in.flag("heads-known")) out.recover.heads = out.hard ? 2 * out.hard->size : in.whole("heads");
  take(in, {"max-heads", "method", "start", "starts"}, out.recover);
  if (in.has("time-limit")) out.recover.time_limit_seconds = in.real("time-limit");
  if (in.has("factor-rank")) out.recover.rank = text(in.value("factor-rank"));
  out.recover.seed = derived(seed, "study-starts");
  return out;
}

}  // namespace headlens

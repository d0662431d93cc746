#include "study/cell_inputs.hpp"

#include <charconv>
#include <cmath>

#include "base/random.hpp"
#include "features/heads.hpp"
#include "headlens/theory.hpp"

namespace headlens {
namespace {

Index parse_key_count(const std::string& whole, std::string_view text) {
  Index value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc() && end == text.data() + text.size(), "keys: '", io::printable_name(whole),
          "' given, expected N or \"A:B\"");
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

Index read_heads(const StudyValue& value) {
  if (const auto* count = std::get_if<std::int64_t>(&value)) return *count;
  require(std::get<std::string>(value) == "inf", "heads: '", io::printable_name(text(value)),
          "' given, expected a whole number or inf");
  return kInfiniteHeads;
}

void read_head_options(const NamedInputs& in, const TaskOptions& task, FeatureOptions& features) {
  if (in.has("head-rank")) {
    const auto* rank = std::get_if<std::int64_t>(&in.value("head-rank"));
    require(rank != nullptr, "head-rank: '", io::printable_name(text(in.value("head-rank"))),
            "' given, expected a whole number or full");
    features.head_rank = *rank;
  }
  if (in.has("mean")) {
    const TaskMatrix mean = in.choice("mean", {TaskMatrix::identity, TaskMatrix::shift, TaskMatrix::random});
    features.mean = target_matrix(mean, task.dim, task.target_seed);
  }
}

// "theory": the values of the smoothest representation of the target, v(W) / M for M heads W, have norms that
// sum to sqrt(B) at most and squares that sum to B / M, in the mean over heads.
std::optional<NormBall> read_norm_ball(const std::string& given, const FitInputs& cell) {
  if (given == "none") return std::nullopt;
  if (given == "theory") {
    const FeatureOptions& features = cell.fit.features;
    require(features.heads != kInfiniteHeads, "norm-ball: theory given, expected a number of heads");
    require(
        features.score == Score::relu && features.positions == Positions::none && has_usual_scales(cell) &&
            !features.mean && !features.head_rank,
        "norm-ball: theory given; theory knows relu scores without positions, and heads of the usual mean, "
        "scale and rank");
    const Theory theory =
        evaluate_theory({.task = cell.train,
                         .model = features.kind,
                         .bias_scale = features.kind == ModelKind::brfa ? features.bias_scale : std::nullopt,
                         .samples = {2}},
                        {});
    require(!theory.complexity_is_lower_bound,
            "norm-ball: theory given, but the complexity of this target is known from below only");
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
          "norm-ball: '", io::printable_name(given), "' given, expected none, theory or \"K1,K2\"");
  return ball;
}

std::uint64_t derived(std::uint64_t seed, std::string_view purpose) { return Stream(seed, purpose).bits(); }

// Empty for a generic layer. A parity of s pairs has 2 s heads; a rounding hides as many coordinates, or as
// `width` says, and has as many heads as it has jumps.
std::optional<HardOptions> hard_layer(const NamedInputs& in, std::uint64_t seed) {
  if (!in.has("layer")) return std::nullopt;
  const std::string& layer = in.word("layer");
  const bool parity = layer == name(HardKind::parity), rounding = layer == name(HardKind::rounding);
  require(parity || rounding, "layer: '", io::printable_name(layer),
          "' given, expected one of generic, hard-parity, hard-rounding");
  require(in.whole("heads") >= 2 && in.whole("heads") % 2 == 0, "heads: ", in.whole("heads"),
          " given, expected an even number: a hard layer has two for every hidden coordinate");
  const bool wide = in.has("width");
  const auto* width = wide ? std::get_if<std::int64_t>(&in.value("width")) : nullptr;
  require(!wide || (width && *width >= 1), "width: ", wide ? text(in.value("width")) : "",
          " given, expected 1 or more, or auto");
  HardOptions out{.kind = parity ? HardKind::parity : HardKind::rounding,
                  .dim = in.whole("dim"),
                  .size = wide ? *width : in.whole("heads") / 2,
                  .sharpness = in.real("sharpness"),
                  .seed = derived(seed, "study-layer")};
  require(out.size < out.dim, wide ? "width: " : "heads: ", wide ? out.size : 2 * out.size,
          " given, expected at most ",
          wide ? "dim - 1 = " : "2 (dim - 1) = ", (wide ? 1 : 2) * (out.dim - 1));
  const double flips = in.real("flips");
  require(flips >= 0 && flips <= 1, "flips: ", flips, " given, expected a share from 0 to 1");
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
  require(std::get<std::string>(value) == "auto", name, ": '", io::printable_name(text(value)),
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
  task.task = task_of(in);
  task.dim = in.whole("dim");
  read_keys(in.value("keys"), task);
  if (in.has("degree")) {
    require(in.whole("degree") >= 0 && in.whole("degree") <= 64, "degree: ", in.whole("degree"),
            " given, expected 0 to 64");
    task.degree = static_cast<int>(in.whole("degree"));
  }
  if (in.has("pure")) task.pure = in.flag("pure");
  if (in.has("matrix"))
    task.matrix = in.choice("matrix", {TaskMatrix::identity, TaskMatrix::shift, TaskMatrix::random});
  if (in.has("weight")) task.weight = in.real("weight");
  task.noise = in.real("noise");
  require(in.whole("samples") >= 1, "samples: ", in.whole("samples"), " given, expected 1 or more");
  task.count = in.whole("samples");
  task.target_seed = derived(seed, "study-target");
  out.test = task;
  out.test.count = in.whole("test-samples");
  out.test.noise = 0;  // errors are against the target itself
  task.seed = derived(seed, "study-train");
  out.test.seed = derived(seed, "study-test");

  FeatureOptions& features = out.fit.features;
  features.kind = in.choice("model", {ModelKind::rfa, ModelKind::brfa, ModelKind::mlp});
  features.heads = read_heads(in.value("heads"));
  features.score = in.choice("score", {Score::relu, Score::step, Score::softmax, Score::exp});
  features.positions = in.choice("positions", {Positions::none, Positions::sinusoidal});
  if (in.has("bias-scale")) features.bias_scale = in.real_or_auto("bias-scale");
  features.weight_scale = in.real_or_auto("weight-scale");
  read_head_options(in, task, features);
  features.precision = in.choice("precision", {Precision::f32, Precision::f64});
  features.seed = derived(seed, "study-heads");
  out.fit.loss = in.choice("loss", {Loss::squared, Loss::huber});  // the tasks have no classes
  if (in.has("huber-delta")) out.fit.huber_delta = in.real("huber-delta");
  out.fit.ridge = in.real_or_auto("ridge");
  out.fit.intercept = in.flag("intercept");
  if (in.has("norm-ball")) out.fit.norm_ball = read_norm_ball(in.word("norm-ball"), out);
  out.fit.solver = in.choice("solver", {Solver::automatic, Solver::primal, Solver::dual, Solver::iterative});
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
    out.teacher = {.heads = in.whole("heads"),
                   .dim = in.whole("dim"),
                   .outputs = in.whole("outputs"),
                   .scale = in.real("scale"),
                   .rank = in.whole("rank"),
                   .seed = derived(seed, "study-layer")};
    out.examples.tokens = in.whole("tokens");
    out.examples.inputs = in.choice("inputs", {Inputs::signs, Inputs::gaussian});
  }
  out.examples.count = in.whole("count");
  out.examples.noise = in.real("noise");
  out.examples.seed = derived(seed, "study-examples");
  if (in.flag("heads-known")) out.recover.heads = out.hard ? 2 * out.hard->size : in.whole("heads");
  if (in.has("max-heads")) out.recover.max_heads = in.whole("max-heads");
  out.recover.method = in.choice(
      "method", {RecoverMethod::varpro, RecoverMethod::sculpt, RecoverMethod::moments,
                 RecoverMethod::gradient, RecoverMethod::brute_force, RecoverMethod::linear_algebra});
  if (in.has("start")) out.recover.start = in.choice("start", {RecoverStart::random, RecoverStart::spectral});
  if (in.has("starts")) {
    require(in.whole("starts") >= 1 && in.whole("starts") <= 1000000, "starts: ", in.whole("starts"),
            " given, expected 1 or more");
    out.recover.starts = static_cast<int>(in.whole("starts"));
  }
  if (in.has("time-limit")) out.recover.time_limit_seconds = in.real("time-limit");
  out.recover.seed = derived(seed, "study-starts");
  return out;
}

}  // namespace headlens

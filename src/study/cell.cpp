#include "study/cell.hpp"

#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "headlens/error.hpp"
#include "study/cell_inputs.hpp"
#include "study/cell_options.hpp"

namespace headlens {
namespace {

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();
constexpr double kSuccess = 1e-8;  // worst relative error of any Theta or W

CellResult run_fit(const FitInputs& in, const Execution& execution) {
  const LabelledSets train = generate(in.train, execution);
  const Fit result = fit(train, in.fit, execution);
  const FitReport& report = result.report;
  require(report.status != FitStatus::not_positive_definite, "the ridge ", report.ridge,
          " is lost in the rounding of the Gram matrix (", name(report.status), ")");
  const Evaluation test = evaluate(result.model, generate(in.test, execution), execution);
  return {{{"outcome", name(report.status)},
           {"nmse", test.nmse.value_or(kNotANumber)},
           {"mse", test.mse},
           {"train-loss", report.train_loss},
           {"chosen-ridge", report.ridge},
           {"residual", report.residual},
           {"iterations", std::int64_t{report.iterations}},
           {"method", report.method},
           {"fit-seconds", report.seconds}},
          report.predicted_peak_bytes};
}

constexpr double kLearned = 1e-3;  // held-out error: the labels are known, whatever the heads are
constexpr Index kFresh = 1000;     // examples to judge a hard layer by

struct Truth {
  AttentionLayer layer;
  std::optional<HiddenLabel> label;  // of a hard one
  Examples examples;
};

Truth draw_truth(const RecoverInputs& in, const Execution& execution) {
  if (!in.hard) {
    AttentionLayer layer = draw_teacher(in.teacher);
    Examples examples = draw_examples(layer, in.examples, execution);
    return {std::move(layer), std::nullopt, std::move(examples)};
  }
  HardLayer hard = draw_hard_layer(*in.hard);
  Examples examples = draw_hard_examples(hard, in.examples, in.flips, execution);
  return {std::move(hard.layer), std::move(hard.label), std::move(examples)};
}

// |F - Y| / |Y| on fresh examples without noise.
double fresh_error(const AttentionLayer& found, const Truth& truth, std::uint64_t seed,
                   const Execution& execution) {
  const Examples fresh = draw_examples(truth.layer, {.count = kFresh, .tokens = 2, .seed = ~seed}, execution);
  const Array y = apply_layer(found, fresh.x, execution);
  double miss = 0, size = 0;
  for (Index i = 0; i < y.size(); ++i) {
    const double label = fresh.y.data<double>()[i], off = y.data<double>()[i] - label;
    miss += off * off;
    size += label * label;
  }
  return std::sqrt(miss / size);
}

bool names_the_set(const Certificate& certificate, const HiddenLabel& label) {
  std::vector<Index> hidden;
  for (Index j = 0; j < label.dim(); ++j)
    if (label.weights[static_cast<std::size_t>(j)] != 0) hidden.push_back(j);
  return certificate.parity && certificate.parity->set == hidden;
}

// Sets among which a learner that knows the class has to find the hidden one.
double hidden_sets(const Truth& truth) {
  return truth.label ? binomial(truth.label->dim() - 1, truth.label->reach()) : kNotANumber;
}

double seconds_of(const Certificate& certificate, const std::string& phase) {
  for (const Phase& item : certificate.phases)
    if (item.name == phase) return item.seconds;
  return kNotANumber;
}

CellResult run_recover(const RecoverInputs& in, const Execution& execution) {
  const Truth truth = draw_truth(in, execution);
  RecoverOptions options = in.recover;
  const bool any_layer = !knows_parities(options.method);
  if (options.heads && any_layer) options.heads = truth.layer.heads();  // a rounding has as many as jumps
  const Recovery found = recover(truth.examples, options, execution);
  const Certificate& certificate = found.certificate;
  const auto dense = !found.layer && found.factors ? multiply_out(*found.factors) : found.layer;
  const double worst = dense ? compare_layers(*dense, truth.layer).worst_error : kNotANumber;
  // Theta of a saturated layer is not determined: a hard layer is right if its labels are.
  const bool right =
      dense && (truth.label ? fresh_error(*dense, truth, in.examples.seed, execution) : worst) < kSuccess;
  const auto rivals = truth.label ? sq_dimension(*truth.label) : std::nullopt;
  return {{{"outcome", name(certificate.status)},
           {"success", std::int64_t{certificate.status == RecoveryStatus::recovered && right}},
           {"worst-error", worst},
           {"held-out-error", certificate.held_out_error},
           {"train-error", certificate.train_error},
           {"heads-found", std::int64_t{certificate.heads}},
           {"starts", std::int64_t{certificate.starts}},
           {"steps", std::int64_t{certificate.steps}},
           {"inner-steps", std::int64_t{certificate.inner_steps}},
           {"recover-seconds", certificate.seconds},
           {"labels-learned", std::int64_t{certificate.held_out_error < kLearned}},
           {"set-found", std::int64_t{truth.label && names_the_set(certificate, *truth.label)}},
           {"search-seconds", seconds_of(certificate, "search")},
           {"sq-dimension", rivals.value_or(kNotANumber)},
           {"hidden-sets", hidden_sets(truth)}},
          certificate.predicted_peak_bytes};
}

}  // namespace

CellResult run_cell(StudyCommand command, const StudyValues& inputs, std::uint64_t seed,
                    const Execution& execution) {
  return command == StudyCommand::fit ? run_fit(fit_inputs(inputs, seed), execution)
                                      : run_recover(recover_inputs(inputs, seed), execution);
}

}  // namespace headlens

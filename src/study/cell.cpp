#include "study/cell.hpp"

#include <limits>

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

CellResult run_recover(const RecoverInputs& in, const Execution& execution) {
  const AttentionLayer truth = draw_teacher(in.teacher);
  const Examples examples = draw_examples(truth, in.examples, execution);
  const Recovery found = recover(examples, in.recover, execution);
  const Certificate& certificate = found.certificate;
  const double worst = found.layer ? compare_layers(*found.layer, truth).worst_error : kNotANumber;
  const bool success = certificate.status == RecoveryStatus::recovered && worst < kSuccess;
  return {{{"outcome", name(certificate.status)},
           {"success", std::int64_t{success}},
           {"worst-error", worst},
           {"held-out-error", certificate.held_out_error},
           {"train-error", certificate.train_error},
           {"heads-found", std::int64_t{certificate.heads}},
           {"starts", std::int64_t{certificate.starts}},
           {"steps", std::int64_t{certificate.steps}},
           {"inner-steps", std::int64_t{certificate.inner_steps}},
           {"recover-seconds", certificate.seconds}},
          certificate.predicted_peak_bytes};
}

}  // namespace

CellResult run_cell(StudyCommand command, const StudyValues& inputs, std::uint64_t seed,
                    const Execution& execution) {
  return command == StudyCommand::fit ? run_fit(fit_inputs(inputs, seed), execution)
                                      : run_recover(recover_inputs(inputs, seed), execution);
}

}  // namespace headlens

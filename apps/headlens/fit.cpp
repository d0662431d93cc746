// headlens fit DATA: trains a model and writes it.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "command.hpp"
#include "files.hpp"
#include "fit_automatic.hpp"
#include "headlens/arrays.hpp"
#include "headlens/files.hpp"
#include "headlens/fit.hpp"
#include "headlens/info.hpp"
#include "headlens/ranks.hpp"

namespace headlens::app {
namespace {

struct FitArguments {
  CommonOptions common;
  FitOptions fit;
  std::string data, mean, output;
  std::string checkpoint;
  bool sequence = false, automatic = false;
};

bool is_usable(const Fit& fit) { return fit.report.status != FitStatus::not_positive_definite; }

Json report_json(const FitArguments& a, const Fit& fit, Index count) {
  const FitReport& r = fit.report;
  const bool solved = r.status != FitStatus::not_positive_definite;
  Json trials = Json::array();
  for (const RidgeTrial& trial : r.trials) trials.push_back({{"ridge", trial.ridge}, {"error", trial.error}});
  return {{"file", is_usable(fit) ? Json(a.output) : Json(nullptr)},
          {"status", name(r.status)},
          {"model", name(fit.model.features.kind)},
          {"heads", fit.model.features.infinite() ? Json("inf") : Json(fit.model.features.heads)},
          {"parameters", fit.model.values.size()},
          {"n", count},
          {"loss", name(fit.model.loss)},
          {"method", r.method},
          {"backend", r.backend},
          {"ridge", r.ridge},
          {"ridge_rule", r.ridge_rule},
          {"train_loss", solved ? Json(r.train_loss) : Json(nullptr)},
          {"residual", solved ? Json(r.residual) : Json(nullptr)},
          {"score_digits", r.score_digits},
          {"iterations", r.iterations},
          {"trials", trials},
          {"predicted_peak_bytes", r.predicted_peak_bytes},
          {"exchanged_bytes", exchanged_bytes()},
          {"seconds", r.seconds}};
}

std::string report_text(const FitArguments& a, const Fit& fit, Index count) {
  const FitReport& r = fit.report;
  if (!is_usable(fit))
    return fmt::format(
        "no model written: the ridge {:.3g} is lost in the rounding of the Gram matrix ({}): raise it, or "
        "use "
        "--ridge auto or --precision f64",
        r.ridge, name(r.status));
  return fmt::format(
      "{}: {} with {} heads ({} parameters) on {} sets\n"
      "  {} loss {:.4g} on the training sets; ridge {:.3g} ({}); {}\n"
      "  status {}, residual {:.1e}, {:.2f} s",
      a.output, name(fit.model.features.kind),
      fit.model.features.infinite() ? "infinitely many" : std::to_string(fit.model.features.heads),
      fit.model.values.size(), count, name(fit.model.loss), r.train_loss, r.ridge, r.ridge_rule, r.method,
      name(r.status), r.residual, r.seconds);
}

// What a checkpoint belongs to: this build, the words of the command, and the data as they are now.
std::string identity(const FitArguments& a) {
  std::error_code none;
  const auto bytes = std::filesystem::file_size(a.data, none);
  const auto time = std::filesystem::last_write_time(a.data, none).time_since_epoch().count();
  return fmt::format("headlens {} {}: {}; {} bytes written at {}", version(), commit(), command_words(),
                     bytes, time);
}

int run(const FitArguments& a) {
  FitOptions options = a.fit;
  if (a.automatic)
    require_no_choice(options, a.mean.empty() ? a.checkpoint.empty() ? "" : "--checkpoint" : "--mean");
  const auto file = Files({a.data, a.mean}).output("-o", a.output, Stream::binary);
  if (!a.mean.empty()) options.features.mean = read_npy(a.mean);
  options.validate();
  Execution execution = a.common.execution();
  if (!a.checkpoint.empty()) execution.checkpoint = {a.checkpoint, identity(a)};
  const LabelledSets data =
      load_labelled_sets(a.data, a.sequence ? DataLayout::sequence : DataLayout::sets, execution);
  if (a.automatic) return run_automatic(a.common, data, options.features.seed, file, execution);
  const Fit result = fit(data, options, execution);
  const Index count = data.sets.whole().count;
  on_first_rank([&] {
    if (is_usable(result)) save_model(file, result.model);
  });
  if (!a.checkpoint.empty()) remove_checkpoints(a.checkpoint, this_rank(), rank_count());
  print(a.common, report_json(a, result, count), report_text(a, result, count));
  return result.report.status == FitStatus::solved ? kOk : kOutcome;
}

}  // namespace

void add_fit(Command& app) {
  auto a = std::make_shared<FitArguments>();
  Command& command = app.add_command("fit", "Train a random-feature attention model");
  command.add_positional("DATA", a->data, "sets (.npz: query, keys, y; ragged with offsets)");
  command.add_text("-o,--output", a->output, "MODEL", "model file to write, or - for standard output",
                   Needed::yes);
  command.add_flag("--auto", a->automatic,
                   "chooses everything by leave-one-out: kernels of random softmax heads and of pools, and "
                   "their penalties; integers in y are class labels");
  add_feature_options(command, a->fit.features, a->mean, {"model", "heads", "score"});
  command.add_options(
      a->fit, {"loss", "ridge", "norm-ball", "huber-delta", "intercept", "solver", "centres", "block-sets"});
  command.add_flag("--sequence", a->sequence,
                   "DATA holds tokens (n,L,d): every token is a query, the others its keys");
  command.add_text(
      "--checkpoint", a->checkpoint, "DIR",
      "folder that keeps sums of the Gram matrix: after a kill the same command goes on from there");
  add_common_options(command, a->common);
  add_backend(command, a->common);
  command.set_footer(
      "Examples:\n"
      "  headlens fit train.npz --auto -o model.hlm\n"
      "  headlens fit train.npz --model rfa --heads 1000 -o model.hlm\n"
      "  headlens fit train.npz --model brfa --ridge 1e-4 --precision f32 -o model.hlm\n"
      "  headlens fit train.npz --model brfa --mean shift.npy --head-rank 4 -o model.hlm\n"
      "  headlens fit labels.npz --loss logistic --heads 500 -o classifier.hlm\n"
      "  headlens fit train.npz --model rfa --heads inf -o kernel.hlm\n"
      "  headlens fit tokens.npz --sequence --score softmax -o equivariant.hlm\n"
      "  mpirun -n 4 headlens fit 'parts/*.npz' --heads 500 --checkpoint sums -o model.hlm");
  command.set_action([a] { return run(*a); });
}

}  // namespace headlens::app

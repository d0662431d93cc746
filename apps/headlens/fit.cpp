// headlens fit DATA: trains a model and writes it.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <memory>

#include "command.hpp"
#include "files.hpp"
#include "head_count.hpp"
#include "headlens/error.hpp"
#include "headlens/fit.hpp"

namespace headlens::app {
namespace {

struct Arguments {
  CommonOptions common;
  FitOptions fit;
  HeadOptions head;
  std::string data, output;
  std::string heads = "1000";
  std::string model = "rfa", score = "relu", positions = "none", precision = "f64", loss = "squared";
  std::string ridge = "auto";
  std::vector<double> norm_ball;
  std::string solver = "auto";
  bool no_intercept = false;
  bool sequence = false;
};

std::optional<double> parse_ridge(const std::string& text) {
  if (text == "auto") return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const bool whole = !text.empty() && *end == '\0';
  require(whole && std::isfinite(value) && value >= 0, "ridge: '", text,
          "' given, expected auto or a number, 0 or more");
  return value;
}

Solver parse_solver(const std::string& text) {
  for (const Solver solver : {Solver::automatic, Solver::primal, Solver::dual, Solver::iterative})
    if (name(solver) == text) return solver;
  throw Error(ErrorCode::misuse,
              join("solver: '", text, "' given, expected one of auto, primal, dual, iterative"));
}

FitOptions options_from(const Arguments& a) {
  FitOptions options = a.fit;
  options.features.heads = parse_heads(a.heads);
  options.features.kind = parse<ModelKind>(a.model);
  options.features.score = parse<Score>(a.score);
  options.features.positions = parse<Positions>(a.positions);
  options.features.precision = parse<Precision>(a.precision);
  options.features.seed = a.common.seed;
  options.loss = parse<Loss>(a.loss);
  options.ridge = parse_ridge(a.ridge);
  options.solver = parse_solver(a.solver);
  options.intercept = !a.no_intercept;
  if (!a.norm_ball.empty()) options.norm_ball = NormBall{a.norm_ball.at(0), a.norm_ball.at(1)};
  return options;
}

bool is_usable(const Fit& fit) { return fit.report.status != FitStatus::not_positive_definite; }

Json report_json(const Arguments& a, const Fit& fit, Index count) {
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
          {"ridge", r.ridge},
          {"ridge_rule", r.ridge_rule},
          {"train_loss", solved ? Json(r.train_loss) : Json(nullptr)},
          {"residual", solved ? Json(r.residual) : Json(nullptr)},
          {"score_digits", r.score_digits},
          {"iterations", r.iterations},
          {"trials", trials},
          {"predicted_peak_bytes", r.predicted_peak_bytes},
          {"seconds", r.seconds}};
}

std::string report_text(const Arguments& a, const Fit& fit, Index count) {
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
      a.output, name(fit.model.features.kind), a.heads == "inf" ? "infinitely many" : a.heads,
      fit.model.values.size(), count, name(fit.model.loss), r.train_loss, r.ridge, r.ridge_rule, r.method,
      name(r.status), r.residual, r.seconds);
}

int run(const Arguments& a) {
  FitOptions options = options_from(a);
  const auto file = Files({a.data, a.head.mean}).output("-o", a.output, Stream::binary);
  apply_head_options(a.head, options.features);
  options.validate();
  const Execution execution = a.common.execution();
  const LabelledSets data =
      load_labelled_sets(a.data, a.sequence ? DataLayout::sequence : DataLayout::sets, execution);
  const Fit result = fit(data, options, execution);
  if (is_usable(result)) save_model(file, result.model);
  print(a.common, report_json(a, result, data.sets.count()), report_text(a, result, data.sets.count()));
  return result.report.status == FitStatus::solved ? kOk : kOutcome;
}

void add_model_options(CLI::App& command, Arguments& a) {
  FeatureOptions& f = a.fit.features;
  add_choice(command, "--model", a.model, "rfa, brfa (identity mean) or mlp (no attention, equal set sizes)",
             "rfa|brfa|mlp");
  command
      .add_option("--heads", a.heads, "number of random heads (neurons, for mlp), or inf: kernel regression")
      ->type_name("M")
      ->capture_default_str();
  add_choice(command, "--score", a.score, "relu, softmax, exp or step (1 above 0)", "relu|softmax|exp|step");
  add_choice(command, "--positions", a.positions, "none, or sinusoidal encodings added to the keys",
             "none|sinusoidal");
  command
      .add_option("--bias-scale", f.bias_scale,
                  "scale b of the mean b * diag(1, .., 1, 0) of the heads (rfa: 0, brfa: 1)")
      ->type_name("b");
  command
      .add_option("--weight-scale", f.weight_scale,
                  "standard deviation of the random entries (default 0.5; mlp: 1/sqrt(2(N+1)))")
      ->type_name("w");
  add_head_options(command, a.head);
  add_choice(command, "--precision", a.precision, "f32 or f64, of features and values", "f32|f64");
  add_seed(command, a.common, "seed of the heads");
}

void add_training_options(CLI::App& command, Arguments& a) {
  add_choice(command, "--loss", a.loss,
             "squared, huber, logistic or hinge (the last two: integer y, a classifier)",
             "squared|huber|logistic|hinge");
  command
      .add_option("--ridge", a.ridge,
                  "penalty: a number, 0 (minimum norm), or auto (leave-one-out; 5 folds if not squared)")
      ->type_name("X")
      ->capture_default_str();
  command
      .add_option("--norm-ball", a.norm_ball,
                  "sum |v_m| <= K1 and sum |v_m|^2 <= K2; replaces an automatic ridge")
      ->type_name("K1,K2")
      ->delimiter(',')
      ->expected(2);
  command.add_option("--huber-delta", a.fit.huber_delta, "residual at which the Huber loss turns linear")
      ->type_name("D")
      ->capture_default_str();
  command.add_flag("--no-intercept", a.no_intercept, "no constant term");
  add_choice(command, "--solver", a.solver, "auto, primal, dual or iterative (squared loss)",
             "auto|primal|dual|iterative");
  add_whole(command, "--centres", a.fit.centres,
            "with --heads inf: fit on m random sets (Nystrom; default: all, if the kernel matrix fits)", "m");
  add_whole(command, "--block-sets", a.fit.block_sets,
            "sets whose features are held at once; never changes the model", "B");
  command.add_flag("--sequence", a.sequence,
                   "DATA holds tokens (n,L,d): every token is a query, the others its keys");
}

}  // namespace

void add_fit(CLI::App& app) {
  auto a = std::make_shared<Arguments>();
  CLI::App& command = *app.add_subcommand("fit", "Train a random-feature attention model");
  command.add_option("DATA", a->data, "sets (.npz: query, keys, y; ragged with offsets)")->required();
  command.add_option("-o,--output", a->output, "model file to write, or - for standard output")
      ->type_name("MODEL")
      ->required();
  add_model_options(command, *a);
  add_training_options(command, *a);
  add_common_options(command, a->common);
  add_backend(command, a->common);
  command.footer(
      "Examples:\n"
      "  headlens fit train.npz --model rfa --heads 1000 -o model.hlm\n"
      "  headlens fit train.npz --model brfa --ridge 1e-4 --precision f32 -o model.hlm\n"
      "  headlens fit train.npz --model brfa --mean shift.npy --head-rank 4 -o model.hlm\n"
      "  headlens fit labels.npz --loss logistic --heads 500 -o classifier.hlm\n"
      "  headlens fit train.npz --model rfa --heads inf -o kernel.hlm\n"
      "  headlens fit tokens.npz --sequence --score softmax -o equivariant.hlm");
  set_action(command, [a] { return run(*a); });
}

}  // namespace headlens::app

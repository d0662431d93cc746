// a small trial -> rates -> bytes and seconds of the large fit
#include "headlens/forecast.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "backend/backend.hpp"
#include "base/parallel.hpp"
#include "comm/communicator.hpp"
#include "features/heads.hpp"
#include "headlens/error.hpp"
#include "headlens/tasks.hpp"

namespace headlens {
namespace {

using backend::Side;

constexpr double kTrialSets = 2048, kTrialColumns = 1100;
constexpr double kRefinements = 6;      // passes of the conjugate gradients that win the last digits
constexpr double kBlockItems = 0x1p25;  // features computed at once

// Seconds of one unit of work.
struct Rates {
  double feature = 0;  // a feature of a set
  double product = 0;  // a feature, with its products in conjugate gradients
  double gram = 0;     // a product of two features of a set in the Gram matrix
  double factor = 0;   // unknowns cubed
  double kernel = 0;   // an entry of a kernel matrix
  double trial_seconds = 0;
};

class Stopwatch {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - start_).count();
    start_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

LabelledSets trial_sets(const ForecastOptions& options) {
  TaskOptions task;
  task.task = Task::power_mean;
  task.dim = options.dim;
  task.min_keys = task.max_keys = options.keys;
  task.count = static_cast<Index>(kTrialSets);
  return generate(task, Execution{});
}

Rates measure_heads(const ForecastOptions& options, const Sets& sets, const backend::Context& context) {
  FeatureOptions features = with_default_scales(options.fit.features, options.keys);
  const bool mlp = features.kind == ModelKind::mlp;
  const double width = mlp ? 1.0 : static_cast<double>(options.dim + 1);
  features.heads = std::max<Index>(16, static_cast<Index>(kTrialColumns / width));
  const Array heads = draw_heads(features, options.dim, mlp ? options.keys : 0, context.threads);
  const auto design = context.machine.make_design({sets, features, true, 0}, heads, context);
  const auto p = static_cast<double>(design->columns());
  Rates rates;
  Stopwatch watch;
  design->means();
  rates.feature = watch.lap() / (kTrialSets * p);
  const Matrix<double> ones = Matrix<double>::zeros(design->columns(), options.outputs);
  (void)design->inner_product(ones, "trial", {});
  rates.product = watch.lap() / (kTrialSets * p);
  const Matrix<double> none = Matrix<double>::zeros(sets.count(), options.outputs);
  std::vector<Index> left_out(512);
  std::iota(left_out.begin(), left_out.end(), Index{0});
  const auto gram = design->gram({Side::primal, Precision::f32, none, left_out});
  rates.gram = std::max(0.0, watch.lap() - rates.feature * kTrialSets * p) / (kTrialSets * p * p);
  const double mean_diagonal = gram->trace() / kTrialSets;
  if (options.fit.ridge)
    (void)gram->factor(kTrialSets * std::max(*options.fit.ridge, 1e-3 * mean_diagonal));
  else
    (void)gram->shift_path();
  rates.factor = watch.lap() / (p * p * p);
  return rates;
}

Rates measure_kernel(const ForecastOptions& options, const Sets& sets, const backend::Context& context) {
  const FeatureOptions features = with_default_scales(options.fit.features, options.keys);
  Rates rates;
  Stopwatch watch;
  const Matrix<double> none = Matrix<double>::zeros(sets.count(), options.outputs);
  const auto [gram, means] = context.machine.make_kernel_gram({sets, features, true}, none, context);
  rates.kernel = 2 * watch.lap() / (kTrialSets * kTrialSets);  // of a symmetric matrix half is computed
  (void)gram->factor(gram->trace());
  rates.factor = watch.lap() / (kTrialSets * kTrialSets * kTrialSets);
  return rates;
}

double log_ranks(const ForecastOptions& options) { return std::ceil(std::log2(std::max(1, options.ranks))); }

// n > p: local Gram matrices, one reduction, every rank factors.
void forecast_primal(const ForecastOptions& options, double p, const Rates& rates, Forecast& out) {
  const double rows = std::ceil(options.count / options.ranks), q = static_cast<double>(options.outputs);
  const double item = options.fit.features.precision == Precision::f32 ? 4 : 8;
  const double triangle = 4 * p * (p + 1) / 2;
  out.route = "primal";
  out.memory = {{"sets of the rank", 8 * rows * static_cast<double>(options.dim * (options.keys + 1))},
                {"targets and vectors", 8 * q * (6 * options.count + 8 * p)},
                {"features at once", std::min(std::max(kBlockItems, 1024 * p), rows * p) * item},
                {"Gram matrix", 8 * p * p}};
  const bool together = options.ranks > 1;
  const double vectors = 8 * p * q * (kRefinements + 4);
  out.exchanged_bytes = together ? triangle + vectors + 24 * p : 0;
  out.phases = {{"means", rows * p * rates.feature},
                {"Gram matrix", rows * p * (rates.feature + p * rates.gram)},
                {"reduction", together ? 2 * out.exchanged_bytes / options.bandwidth : 0},
                {"factorisation", p * p * p * rates.factor},
                {"refinement and check", rows * p * rates.product * (kRefinements + 1)}};
}

// 1 / r + 1 / c on a grid of r times c ranks: the sets that a rank needs for its rows and columns, as a share
// of all.
double share_of_sets(int ranks) {
  const comm::GridPlace grid = comm::place_on_grid(0, ranks, 1);
  return 1.0 / grid.rows + 1.0 / grid.columns;
}

// n <= p, and infinitely many heads: K in block-cyclic layout.
void forecast_dual(const ForecastOptions& options, double p, const Rates& rates, Forecast& out) {
  const double n = options.count, r = options.ranks, q = static_cast<double>(options.outputs);
  const bool kernel = options.fit.features.infinite();
  const double part = 8 * n * n / r, sets = 8 * n * static_cast<double>(options.dim * (options.keys + 1));
  const bool together = options.ranks > 1;
  const double mine = std::min(1.0, share_of_sets(options.ranks)) * sets;  // what is asked of other ranks
  const double eigen = options.fit.ridge ? 0 : 3 * part;
  out.route = kernel ? "kernel" : "dual";
  out.memory = {
      {together ? "sets of the rank's entries" : "sets", together ? 3 * mine : (kernel ? 3 : 2) * sets},
      {"targets and vectors", 8 * q * (6 * n + (kernel ? 0 : 8 * p))},
      {"matrix, and its copy", 2 * part},
      {"eigenvectors and their workspace", eigen}};
  // A trial of one process works on one triangle; ranks have both.
  const double entries = n * n / r;
  const double cube = (options.fit.ridge ? 1.0 : 27.0) * n * n * n / r;
  const double broadcast = 8 * n * n * log_ranks(options) / std::sqrt(r);
  // Rank 0 gathers the sets that a model with infinitely many heads keeps.
  out.exchanged_bytes = together ? (1 - 1 / r) * mine + (kernel ? sets : 0) + broadcast : 0;
  out.phases = {{"matrix", entries * (kernel ? rates.kernel : 2 * p * rates.gram)},
                {"exchange", out.exchanged_bytes / options.bandwidth},
                {options.fit.ridge ? "factorisation" : "eigenvectors", cube * rates.factor}};
}

double total(const std::vector<ForecastPart>& parts) {
  double sum = 0;
  for (const ForecastPart& part : parts) sum += part.value;
  return sum;
}

}  // namespace

double Forecast::bytes() const { return total(memory); }
double Forecast::seconds() const { return total(phases); }

void ForecastOptions::validate() const {
  fit.validate();
  require(count >= 1 && count < 0x1p53 && count == std::floor(count), option("count"), ": ", count,
          " given, expected a whole number, 1 or more");
  require(ranks >= 1 && ranks <= count, option("ranks"), ": ", ranks,
          " given, expected 1 or more, and no more than sets");
  require(bandwidth > 0, option("bandwidth"), ": ", bandwidth, " given, expected a number above 0");
  require(dim >= 1 && keys >= 1 && outputs >= 1, "dim, keys and outputs: expected 1 or more");
  require(fit.loss == Loss::squared && !fit.norm_ball && !fit.centres && fit.solver == Solver::automatic,
          option("loss"), ": only fits with the squared loss and the automatic solver are forecast");
}

Forecast forecast_fit(const ForecastOptions& options, const Execution& execution) {
  options.validate();
  const Heed heeding(execution);
  const backend::Context context = backend::context_of(execution);
  const LabelledSets trial = trial_sets(options);
  const bool kernel = options.fit.features.infinite();
  Stopwatch watch;
  Forecast out;
  const Rates rates =
      kernel ? measure_kernel(options, trial.sets, context) : measure_heads(options, trial.sets, context);
  out.trial_seconds = watch.lap();
  const double p =
      kernel ? 0
             : context.machine.columns(options.fit.features, options.dim,
                                       options.fit.features.kind == ModelKind::mlp ? options.keys : 0);
  if (kernel || options.count <= p)
    forecast_dual(options, p, rates, out);
  else
    forecast_primal(options, p, rates, out);
  return out;
}

}  // namespace headlens

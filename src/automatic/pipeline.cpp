// sets -> tokens -> kernels, screened -> members, fitted on all sets -> uncertainty -> model
#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "automatic/blocks.hpp"
#include "automatic/select.hpp"
#include "automatic/spectrum.hpp"
#include "automatic/uncertainty.hpp"
#include "backend/backend.hpp"
#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "base/random.hpp"
#include "comm/communicator.hpp"
#include "data/set_checks.hpp"
#include "features/kept_sets.hpp"
#include "headlens/error.hpp"

namespace headlens {
namespace automatic {
namespace {

constexpr Index kScreened = 500;      // sets on which kernels are compared
constexpr Index kAllKept = 1500;      // up to so many sets a model keeps all
constexpr Index kMostCentres = 1000;  // of more it keeps so many

// Labels become -1 and 1, a column per class (one for two classes).
Matrix<double> numbers_of(const LabelledSets& data, AutomaticModel& model) {
  const Targets& y = data.targets;
  const Index n = data.sets.count();
  if (!y.integer) {
    check_target_range(y.values, 0, data.sets.name());  // targets may come from elsewhere than a file
    Matrix<double> out(n, y.outputs);
    std::copy(y.values.begin(), y.values.end(), out.data());
    return out;
  }
  require(y.outputs == 1, data.sets.name(), ": y has shape ", format_shape(y.shape),
          " and holds integers, which are class labels: give one label per set, or floating-point numbers");
  for (const double value : y.values) model.classes.push_back(static_cast<std::int64_t>(value));
  std::sort(model.classes.begin(), model.classes.end());
  model.classes.erase(std::unique(model.classes.begin(), model.classes.end()), model.classes.end());
  const auto classes = static_cast<Index>(model.classes.size());
  require(classes >= 2, data.sets.name(), ": y holds only the class ", model.classes.front(),
          ", and a classifier needs at least two");
  require(2 * classes <= n || classes == 2, data.sets.name(), ": y holds ", classes,
          " different integers in ", n,
          " sets, and integers are class labels: give floating-point numbers for a regression");
  Matrix<double> out(n, classes == 2 ? 1 : classes);
  for (Index i = 0; i < n; ++i)
    for (Index c = 0; c < out.cols(); ++c) {
      const std::int64_t one = model.classes[static_cast<std::size_t>(classes == 2 ? 1 : c)];
      out(i, c) = y.values[static_cast<std::size_t>(i)] == static_cast<double>(one) ? 1 : -1;
    }
  return out;
}

// `count` different sets, in increasing order.
std::vector<Index> draw_sets(Index sets, Index count, std::uint64_t seed, const char* purpose) {
  std::vector<Index> order(static_cast<std::size_t>(sets));
  std::iota(order.begin(), order.end(), Index{0});
  Stream stream(seed, purpose);
  for (Index i = 0; i < std::min(count, sets); ++i)
    std::swap(order[static_cast<std::size_t>(i)],
              order[static_cast<std::size_t>(i) + stream.below(static_cast<std::uint64_t>(sets - i))]);
  order.resize(static_cast<std::size_t>(std::min(count, sets)));
  std::sort(order.begin(), order.end());
  return order;
}

Matrix<double> rows_of(MatrixView<const double> y, const std::vector<Index>& chosen) {
  Matrix<double> out(static_cast<Index>(chosen.size()), y.cols);
  for (Index i = 0; i < out.rows(); ++i)
    std::copy_n(y.row(chosen[static_cast<std::size_t>(i)]), y.cols, &out(i, 0));
  return out;
}

// Tokens and the largest block of features; then whichever is more:
// - screening: products of every block, predictions of every kernel of one frame, and of every worker a
//   kernel, eigenvectors and what LAPACK takes, and predictions at two penalties;
// - fitting: of every member products with and among the kept sets, later its spectrum in their place, and
//   what belongs to every output; of every worker kernels, features and eigenvectors beside that.
double peak_bytes(const Sets& sets, Index outputs, bool classifier, Index kept, int workers) {
  const auto n = static_cast<double>(sets.count()), m = static_cast<double>(kept),
             d = static_cast<double>(sets.dim()), q = static_cast<double>(outputs);
  const auto members = static_cast<double>(most_members(classifier)),
             blocks = static_cast<double>(most_blocks(classifier));
  const double tokens = static_cast<double>(sets.total_keys()) * d;
  const double screened = static_cast<double>(std::min(sets.count(), kScreened));
  const double screening =
      screened * (screened * (blocks + 1 + 6.0 * workers) + (6 * blocks + 4.0 * workers + 1) * q) + n * q;
  const double fitting = (members + 1) * (n * m + m * m) + workers * (3 * n * m + 6 * m * m) +
                         (members + 4.0 * workers) * (n + m) * q;
  const double described = (n + m) * (d + static_cast<double>(kFrequencies) +
                                      std::max(static_cast<double>(kHeads) * d, 2.0 * kFrequencies));
  return 8 * (2 * tokens + described + std::max(screening, fitting));
}

// How many sets are kept, and how many workers have memory. The number of sets decides what the model is, so
// threads have no say in it: what one worker can afford is kept, and memory that is left goes to others.
struct Affordable {
  Index kept = 0;
  int workers = 1;
  double bytes = 0;  // with both
};

Affordable affordable(const Sets& sets, Index outputs, bool classifier, const backend::Context& context) {
  const MemoryBudget budget(context.execution);
  const auto bytes = [&](Index kept, int workers) {
    return peak_bytes(sets, outputs, classifier, kept, workers);
  };
  const Index wanted = sets.count() <= kAllKept ? sets.count() : kMostCentres;
  Affordable out{wanted};
  while (out.kept > 200 && !budget.fits(bytes(out.kept, 1))) out.kept /= 2;
  budget.require(bytes(out.kept, 1), join("an automatic fit on ", sets.count(), " sets"));
  while (out.workers < context.threads && budget.fits(bytes(out.kept, out.workers + 1))) ++out.workers;
  out.bytes = bytes(out.kept, out.workers);
  if (out.kept < wanted)
    context.execution.note(join("memory: ", out.kept, " sets are kept instead of ", wanted));
  return out;
}

struct FittedMember {
  Spectrum spectrum;
  LeaveOneOut loo;
  Matrix<double> values;
};

// Every member on all sets: its penalty again, for it falls with the number of sets.
std::vector<FittedMember> fit_members(AutomaticModel& model, const Tokens& tokens, const Tokens* kept,
                                      MatrixView<const double> y, int workers,
                                      const backend::Context& context) {
  const Tokens& centres = kept ? *kept : tokens;
  std::vector<Products> all = block_products(model.members, model.frame, tokens, centres, context.threads);
  std::vector<Products> among;
  if (kept) among = block_products(model.members, model.frame, centres, centres, context.threads);
  std::vector<FittedMember> out(model.members.size());
  const auto count = static_cast<Index>(out.size());
  parallel_for(workers, count, [&](Index c, int worker) {
    if (worker == 0)
      context.execution.report("fit kernels", static_cast<double>(c), static_cast<double>(count));
    const auto at = static_cast<std::size_t>(c);
    AutomaticMember& member = model.members[at];
    FittedMember& fitted = out[at];
    Matrix<double> kernel = kernel_of(member, std::move(all[at]), 1);
    fitted.spectrum = kept ? decompose(std::move(kernel), kernel_of(member, std::move(among[at]), 1), 1)
                           : decompose(std::move(kernel));
    fitted.loo = best_penalty(fitted.spectrum, y, penalties(model.is_classifier()));
    fitted.values = coefficients(fitted.spectrum, y, fitted.loo.penalty);
    member.penalty = fitted.loo.penalty;
    member.loo_error = fitted.loo.error;
  });
  return out;
}

// What every member counts, and what is added so that the leave-one-out predictions have the mean of y.
struct Mixture {
  std::vector<double> weights;  // of the members
  std::vector<double> shift;    // (q)
  Matrix<double> predictions;   // (n, q) leave-one-out, of the whole model
};

Mixture mix(const std::vector<FittedMember>& fitted, MatrixView<const double> y, bool classifier) {
  std::vector<const Matrix<double>*> each;
  for (const FittedMember& one : fitted) each.push_back(&one.loo.predictions);
  Mixture out{weigh(each, y, classifier), std::vector<double>(static_cast<std::size_t>(y.cols)),
              Matrix<double>(y.rows, y.cols)};
  const std::vector<double> means = column_means(y);
  for (Index o = 0; o < y.cols; ++o) {
    const auto at = static_cast<std::size_t>(o);
    for (std::size_t c = 0; c < each.size() && classifier; ++c)
      out.shift[at] += out.weights[c] * (means[at] - column_means(*each[c])[at]);
    for (Index i = 0; i < y.rows; ++i) {
      out.predictions(i, o) = means[at] + out.shift[at];
      for (std::size_t c = 0; c < each.size(); ++c)
        out.predictions(i, o) += out.weights[c] * ((*each[c])(i, o) - means[at]);
    }
  }
  return out;
}

// The weighted sum of the members, with one intercept: member c is mean y + sum_j (K_c(x, z_j) - mean) a_cj.
void assemble(AutomaticModel& model, const std::vector<FittedMember>& fitted, const Mixture& mixture,
              MatrixView<const double> y) {
  const auto members = static_cast<Index>(fitted.size());
  const Index m = fitted.front().values.rows(), q = y.cols;
  model.outputs = q;
  model.values = Array(DType::f64, {members, m, q});
  std::vector<double> intercept = column_means(y);
  for (Index o = 0; o < q; ++o)
    intercept[static_cast<std::size_t>(o)] += mixture.shift[static_cast<std::size_t>(o)];
  for (Index c = 0; c < members; ++c) {
    const FittedMember& one = fitted[static_cast<std::size_t>(c)];
    model.members[static_cast<std::size_t>(c)].weight = mixture.weights[static_cast<std::size_t>(c)];
    for (Index j = 0; j < m; ++j)
      for (Index o = 0; o < q; ++o) {
        const double value = one.values(j, o) * mixture.weights[static_cast<std::size_t>(c)];
        require(std::isfinite(value), "the fitted values overflow: scale the tokens or y");
        model.values.data<double>()[(c * m + j) * q + o] = value;
        intercept[static_cast<std::size_t>(o)] -= one.spectrum.means[static_cast<std::size_t>(j)] * value;
      }
  }
  model.intercept = Array::from(intercept, {q});
}

// What is kept of the kernels of one frame, best first; their predictions, a matrix per kernel, are not.
struct Screened {
  std::vector<AutomaticMember> tried, members;

  double error() const { return tried.front().loo_error; }
};

Screened screen_frame(const TokenFrame& frame, const Sets& sets, const std::vector<Index>& chosen,
                      MatrixView<const double> y, bool classifier, int workers,
                      const backend::Context& context) {
  const std::vector<Trial> trials =
      screen(frame, standardise(frame, sets, chosen, context.threads), y, classifier, workers, context);
  Screened out;
  for (const Trial& trial : trials) out.tried.push_back(trial.member);
  if (!trials.empty()) out.members = committee(trials, y, classifier);
  return out;
}

// The frame and its kernels, best first. Coordinates become normal scores where the best kernel then has an
// error that is a twentieth smaller: values have the better right, for means and sums are linear in them.
// There may be no scores: a coordinate may be constant in the sets that they are learned from.
void choose_kernels(const Sets& sets, MatrixView<const double> y, AutomaticFit& fit, int workers,
                    const backend::Context& context) {
  constexpr double kBetter = 0.95;
  AutomaticModel& model = fit.model;
  const bool classifier = model.is_classifier();
  const std::vector<Index> chosen = draw_sets(sets.count(), kScreened, model.seed, "automatic-screened");
  const Matrix<double> chosen_y = rows_of(y, chosen);
  const auto screened = [&](const TokenFrame& frame) {
    return screen_frame(frame, sets, chosen, chosen_y, classifier, workers, context);
  };
  fit.screened = static_cast<Index>(chosen.size());
  model.frame = learn_frame(sets, model.seed, context.threads);
  TokenFrame scored = frame_by_scores(sets, model.frame, context.threads);
  Screened best = screened(model.frame), other = screened(scored);
  require(!best.tried.empty(), sets.name(), ": the ", fit.screened,
          " sets that were compared are all the same, so nothing can be learned from them: give sets that "
          "differ");
  if (!other.tried.empty()) {
    if (other.error() < kBetter * best.error()) {
      std::swap(best, other);
      model.frame = std::move(scored);
    }
    fit.other_tokens_error = other.error();
  }
  fit.trials = std::move(best.tried);
  model.members = std::move(best.members);
}

AutomaticFit run(const LabelledSets& data, std::uint64_t seed, const backend::Context& context) {
  const Sets& sets = data.sets;
  AutomaticFit fit;
  AutomaticModel& model = fit.model;
  model.dim = sets.dim();
  model.seed = seed;
  model.sequence = sets.is_sequence();
  model.vector_targets = data.targets.shape.size() > (sets.is_sequence() ? 2U : 1U);
  model.count = sets.count();
  require(sets.count() >= 4, sets.name(), ": ", sets.count(),
          " sets given, and an automatic fit needs 4 or more");
  const Matrix<double> y = numbers_of(data, model);
  const auto [kept_count, workers, bytes] = affordable(sets, y.cols(), model.is_classifier(), context);
  fit.predicted_peak_bytes = static_cast<std::uint64_t>(bytes);
  choose_kernels(sets, y, fit, workers, context);
  const std::vector<Index> kept = draw_sets(sets.count(), kept_count, seed, "automatic-kept");
  const bool all = kept_count == sets.count();
  const std::vector<Index> everything = draw_sets(sets.count(), sets.count(), seed, "automatic-kept");
  const Tokens tokens = standardise(model.frame, sets, everything, context.threads);
  Tokens centres;
  if (!all) centres = standardise(model.frame, sets, kept, context.threads);
  const std::vector<FittedMember> fitted =
      fit_members(model, tokens, all ? nullptr : &centres, y, workers, context);
  const Mixture mixture = mix(fitted, y, model.is_classifier());
  assemble(model, fitted, mixture, y);
  FeatureOptions plain;  // sets are kept as they are, in double
  model.support = make_support(sets, kept, plain);
  learn_uncertainty(model, fitted.front().spectrum, fitted.front().loo, mixture.predictions, y);
  return fit;
}

}  // namespace
}  // namespace automatic

AutomaticFit fit_automatic(const LabelledSets& data, std::uint64_t seed, const Execution& execution) {
  const Heed heeding(execution);
  const auto start = std::chrono::steady_clock::now();
  const backend::Context context = backend::context_of(execution);
  require(context.machine.name() == "cpu", option("backend", std::string(context.machine.name())),
          ": an automatic fit runs on the processor: leave the option out");
  require(context.ranks.alone(), "an automatic fit runs on one process: start it without mpirun");
  AutomaticFit fit = automatic::run(data, seed, context);
  fit.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return fit;
}

std::string name(BlockKind kind) {
  constexpr const char* names[] = {"attention", "embedding", "mean",  "maximum", "minimum", "second",
                                   "size",      "query",     "total", "nearest", "centre",  "spread"};
  return names[static_cast<int>(kind)];
}

}  // namespace headlens

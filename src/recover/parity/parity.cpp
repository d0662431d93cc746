// active examples -> hidden set -> sharpness -> layer -> certificate
#include "recover/parity/parity.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "attention/packing.hpp"
#include "headlens/error.hpp"
#include "headlens/hardness.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::recovery {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kAsGood = 1 - 1e-9;  // correlation of a second set that explains the labels as well
constexpr double kSpareBits = 32;     // fewer, and chance could pass for a proof: labels have one bit each

// Heads of a parity as a candidate, for the error that every method is certified by.
Candidate candidate_of(Index dim, const std::vector<Index>& set, const ParityFit& fit) {
  const AttentionLayer unit = parity_layer(dim, set, fit.sharpness).layer;
  const auto outputs = static_cast<Index>(fit.heights.size());
  Candidate out{pack_theta(unit.theta), Matrix<double>::zeros(unit.heads() * dim, outputs)};
  for (Index i = 0; i < unit.heads(); ++i)
    for (Index c = 0; c < outputs; ++c)
      out.w(i * dim, c) = unit.w.data<double>()[i * dim] * fit.heights[static_cast<std::size_t>(c)];
  return out;
}

// |F - Y| / |Y| of the layer itself. In pieces, since Phi has m d columns.
double layer_error(MatrixView<const double> x, MatrixView<const double> y, const Candidate& candidate,
                   int threads) {
  const double scale = squared_norm(y);
  if (scale == 0) return 1;
  const Index step = std::max<Index>(1, (Index{1} << 22) / candidate.theta.cols() / 2) * 2;
  double sum = 0;
  for (Index row = 0; row < x.rows; row += step) {
    const Index rows = std::min(step, x.rows - row);
    sum += squared_norm(residual_on(x.block(row, 0, rows, x.cols), y.block(row, 0, rows, y.cols), 2,
                                    candidate.theta, candidate.w, threads));
  }
  return std::sqrt(sum / scale);
}

// |F - Y| / |Y| without building the layer. A parity layer says 0 where the control is off, and -v where it
// says v: the rest of the labels no set explains. Steps say x[0] rest where the control is off.
double class_error(MatrixView<const double> x, MatrixView<const double> y, double active_error,
                   const std::vector<double>& rest) {
  const double scale = squared_norm(y);
  if (scale == 0) return 1;
  double sum = 2 * active_error;
  for (Index row = 0; row + 1 < y.rows; row += 2)
    for (Index c = 0; c < y.cols; ++c) {
      const double a = y(row, c), b = y(row + 1, c), off = x(row, 0) * rest[static_cast<std::size_t>(c)];
      sum +=
          x(row, 0) != x(row + 1, 0) ? (a + b) * (a + b) / 2 : (a - off) * (a - off) + (b - off) * (b - off);
    }
  return std::sqrt(sum / scale);
}

struct Learned {
  std::vector<Index> set;
  ParityFit fit;
  std::optional<StepFit> steps;  // instead of the parity's
  double train_error = 1, held_out_error = 1;
  bool all_tried =
      true;  // sets of this size; only then is it known that no other explains the labels as well
  bool layer_tested = true;  // errors are those of the layer itself
};

class ParityLearner {
 public:
  ParityLearner(const Split& split, const RecoverOptions& options, Effort& effort)
      : split_(split),
        options_(options),
        effort_(effort),
        train_(active_examples(split.train_x, split.train_y)),
        held_(active_examples(split.held_x, split.held_y)) {
    report.active_examples = train_.count() + held_.count();
  }

  Learned by_linear_algebra() {
    const ParitySolution solution = timed(search_seconds, [&] { return solve_parity(train_, effort_); });
    report.equations = solution.equations;
    report.rank = solution.rank;
    report.violated = solution.violated;
    report.spare_bits = static_cast<double>(report.active_examples - train_.bits.rows());
    return measure(solution.set);
  }

  Learned by_brute_force(Certificate& certificate) {
    const Index d = train_.bits.rows();
    const Index first = options_.heads ? *options_.heads / 2 : 1;
    const Index last = options_.heads ? first : std::min(options_.max_heads / 2, d - 1);
    require(first >= 1 && first < d, option("heads"), ": ", 2 * first, " given, expected 2 to ", 2 * (d - 1),
            ", two for every hidden coordinate");
    Learned best;
    for (Index size = first; size <= last && !effort_.expired(); ++size) {
      BestSet found = timed(search_seconds, [&] { return search_sets(train_, size, effort_); });
      report.candidates += found.candidates;
      report.tried += found.tried;
      Learned learned = measure(found.set);
      if (learned.held_out_error >= kProof && !effort_.expired()) {  // no parity: any function of a sum?
        BestSet summed = timed(search_seconds, [&] { return search_sums(train_, size, effort_); });
        Learned steps = measure_steps(summed.set);
        steps.all_tried = summed.tried == summed.candidates;
        if (steps.held_out_error < learned.held_out_error)
          learned = std::move(steps), found = std::move(summed);
      }
      certificate.trials.push_back({2 * size, learned.train_error, learned.held_out_error});
      if (best.set.empty() || learned.held_out_error < best.held_out_error) {
        best = std::move(learned);
        report.correlation = found.correlation;
        report.next_correlation = found.next_correlation;
      }
      if (best.held_out_error < kProof) break;
    }
    report.spare_bits = confirming_bits(best) - std::log2(std::max(1.0, report.candidates));
    return best;
  }

  RecoveryStatus verdict(const Learned& learned) const {
    if (squared_norm(split_.train_y) == 0) return RecoveryStatus::not_identified;
    const bool undecided =
        options_.method == RecoverMethod::linear_algebra && report.rank < train_.bits.rows();
    const bool explains = learned.held_out_error < kProof && learned.layer_tested;
    // A parity that explains the labels needs no comparison with others: chance is in the spare bits.
    const bool unique = !learned.steps || learned.all_tried;
    if (effort_.expired() && !(explains && unique)) return RecoveryStatus::stalled;
    // Not `<`: with no example that has the control on, the bits are not a number.
    if (undecided || !(report.spare_bits >= kSpareBits)) return RecoveryStatus::needs_more_examples;
    if (explains && learned.steps && (learned.steps->unseen > 0 || report.next_correlation > kAsGood))
      return RecoveryStatus::needs_more_examples;
    return explains ? RecoveryStatus::recovered : RecoveryStatus::not_identified;
  }

  // What was found, for the report.
  void describe(const Learned& learned) {
    report.set = learned.set;
    report.sharpness = learned.fit.sharpness;
    report.sharpness_determined = learned.fit.sharpness_determined;
    if (!learned.steps) return;
    for (Index t = 0; t < learned.steps->values.cols(); ++t)
      report.steps.push_back(learned.steps->values(strongest_output(train_), t));
  }

  ParityReport report;
  double search_seconds = 0;  // of the set alone, which is what grows

 private:
  Learned measure(std::vector<Index> set) {
    Learned out{std::move(set)};
    if (out.set.empty()) return out;
    out.fit = fit_parity(train_, out.set);
    if (out.fit.heights.empty()) return out;
    measure(out, out.fit, std::vector<double>(out.fit.heights.size(), 0.0));
    return out;
  }

  Learned measure_steps(std::vector<Index> set) {
    Learned out{std::move(set)};
    if (out.set.empty()) return out;
    out.steps = fit_steps(train_, out.set, split_.train_x, split_.train_y);
    out.fit.sharpness = kMostSharpness;  // the labels are steps: any that is large enough
    if (out.steps->largest() > 0) measure(out, *out.steps, out.steps->rest);
    return out;
  }

  template <class Fit>
  void measure(Learned& out, const Fit& fit, const std::vector<double>& rest) const {
    out.train_error = class_error(split_.train_x, split_.train_y, squared_error(train_, out.set, fit), rest);
    out.held_out_error = class_error(split_.held_x, split_.held_y, squared_error(held_, out.set, fit), rest);
  }

  // Bits that the active examples say beyond the values of G: an example of a parity says one. Labels of a
  // step function that are mostly the same say less: -log2 of the share of the most frequent one.
  double confirming_bits(const Learned& learned) const {
    const auto active = static_cast<double>(report.active_examples);
    if (!learned.steps || train_.count() == 0) return active;
    const double* v = train_.labels.view().row(strongest_output(train_));
    std::vector<double> labels(v, v + train_.count());
    std::sort(labels.begin(), labels.end());
    const double same = kProof * learned.steps->largest();
    std::size_t first = 0, most = 0;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      while (labels[i] - labels[first] > same) ++first;
      most = std::max(most, i + 1 - first);
    }
    const double share = static_cast<double>(most) / static_cast<double>(labels.size());
    return std::max(0.0, active - static_cast<double>(learned.steps->values.cols())) * -std::log2(share);
  }

  const Split& split_;
  const RecoverOptions& options_;
  Effort& effort_;
  ActiveExamples train_, held_;
};

// Why no set was certified, and what to do next.
void explain_parity(const RecoverOptions& options, Certificate& certificate) {
  switch (certificate.status) {
    case RecoveryStatus::needs_more_examples:
      certificate.reason =
          "There are too few examples with the control on to tell one hidden set from chance, or to show "
          "every "
          "value of the hidden sum.";
      certificate.advice = "Give more examples.";
      return;
    case RecoveryStatus::not_identified:
      certificate.reason =
          options.method == RecoverMethod::brute_force
              ? "No function of the sum of so few hidden signs explains the held-out examples; `parity` "
                "names "
                "the best hidden set."
              : "No parity layer explains the held-out examples; `parity` names the best hidden set.";
      certificate.advice =
          options.method == RecoverMethod::linear_algebra
              ? Text("Equations over GF(2) bear no wrong label: with noisy labels use brute-force.")
              : message("Check that the labels are those of a hard layer without noise, or raise ",
                        option("heads"), " or ", option("max-heads"), ".");
      return;
    case RecoveryStatus::stalled:
      certificate.reason = options.method == RecoverMethod::brute_force
                               ? "The time limit came before all hidden sets were tried."
                               : "The time limit came before all equations were solved.";
      certificate.advice =
          message("Raise ", option("time-limit"),
                  ", or give the number of heads (two per hidden coordinate) with ", option("heads"), ".");
      return;
    case RecoveryStatus::recovered:
    case RecoveryStatus::approximate:
    case RecoveryStatus::best_fit:
      return;
  }
}

void require_pairs_of_signs(const Split& split, const RecoverOptions& options) {
  const std::string method = name(options.method);
  require(split.tokens == 2, option("method"), ": ", method,
          " knows layers on two tokens, the examples have ", split.tokens);
  require(split.train_x.cols >= 2, option("method"), ": ", method,
          " needs tokens of two coordinates or more");
  require(!options.heads || *options.heads % 2 == 0, option("heads"), ": ", options.heads.value_or(0),
          " given, expected an even number: a parity has two for every hidden coordinate");
  for (const MatrixView<const double>& x : {split.train_x, split.held_x})
    for (Index i = 0; i < x.rows; ++i)
      for (Index j = 0; j < x.cols; ++j)
        require(std::abs(x(i, j)) == 1, option("method"), ": ", method,
                " knows layers on signs, but X holds ", x(i, j));
}

// Bits, differences, signs and labels; products of brute force.
double search_bytes(const Split& split, const RecoverOptions& options, const Effort& effort) {
  const double d = static_cast<double>(split.train_x.cols),
               pairs = static_cast<double>(split.train_x.rows + split.held_x.rows) / 2;
  const double products =
      options.method == RecoverMethod::brute_force
          ? static_cast<double>(options.heads.value_or(options.max_heads)) / 2 * effort.threads()
          : 0;
  return pairs * (10 * d + 8 * (products + static_cast<double>(split.train_y.cols)));
}

}  // namespace

ActiveExamples active_examples(MatrixView<const double> x, MatrixView<const double> y) {
  std::vector<Index> active;
  for (Index row = 0; row + 1 < x.rows; row += 2)
    if (x(row, 0) != x(row + 1, 0)) active.push_back(row);
  const auto n = static_cast<Index>(active.size());
  ActiveExamples out{Matrix<double>(x.cols, n), Matrix<signed char>(x.cols, n), Matrix<double>(y.cols, n)};
  for (Index i = 0; i < n; ++i) {
    const Index row = active[static_cast<std::size_t>(i)];
    for (Index j = 0; j < x.cols; ++j) {
      out.bits(j, i) = x(row, j) * x(row + 1, j);
      out.differences(j, i) = static_cast<signed char>((x(row, j) - x(row + 1, j)) / 2);
    }
    for (Index c = 0; c < y.cols; ++c) out.labels(c, i) = x(row, 0) * (y(row, c) - y(row + 1, c)) / 2;
  }
  return out;
}

Index strongest_output(const ActiveExamples& active) {
  Index strongest = 0;
  double most = -1;
  for (Index c = 0; c < active.labels.rows(); ++c) {
    const double size = squared_norm(active.labels.view().block(c, 0, 1, active.count()));
    if (size > most) most = size, strongest = c;
  }
  return strongest;
}

void learn_parity(const Split& split, const RecoverOptions& options, Effort& effort, Recovery& recovery) {
  require_pairs_of_signs(split, options);
  Certificate& certificate = recovery.certificate;
  const double d = static_cast<double>(split.train_x.cols), bytes = search_bytes(split, options, effort);
  effort.reserve(bytes, "learning a parity");

  auto start = Clock::now();
  const auto lap = [&](const char* phase) {
    const auto now = Clock::now();
    certificate.phases.push_back({phase, std::chrono::duration<double>(now - start).count()});
    start = now;
  };
  ParityLearner learner(split, options, effort);
  lap("bits");
  Learned learned;
  (void)effort.in_time([&] {
    learned = options.method == RecoverMethod::linear_algebra ? learner.by_linear_algebra()
                                                              : learner.by_brute_force(certificate);
  });
  lap("fit");
  certificate.phases.back().seconds -= learner.search_seconds;
  certificate.phases.push_back({"search", learner.search_seconds});
  if (learned.held_out_error < kProof) {
    // The layer, its arrays, and a piece of Phi.
    const double layer_bytes = 8 * (4 * d * d * static_cast<double>(learned.set.size()) + (1 << 23));
    effort.reserve(bytes + layer_bytes, "the layer of a parity");
    const Candidate candidate = learned.steps
                                    ? step_candidate(split.train_x.cols, learned.set, *learned.steps)
                                    : candidate_of(split.train_x.cols, learned.set, learned.fit);
    learned.layer_tested = effort.in_time([&] {
      learned.held_out_error = layer_error(split.held_x, split.held_y, candidate, effort.threads());
      learned.train_error = layer_error(split.train_x, split.train_y, candidate, effort.threads());
    });
    lap("certify");
    if (learner.verdict(learned) == RecoveryStatus::recovered)
      recovery.layer = unpack_layer(candidate.theta, candidate.w);
    recovery.best = unpack_layer(candidate.theta, candidate.w);
  }
  learner.describe(learned);
  certificate.status = learner.verdict(learned);
  certificate.heads = recovery.layer ? recovery.layer->heads() : 2 * static_cast<Index>(learned.set.size());
  certificate.train_error = learned.train_error;
  certificate.held_out_error = learned.held_out_error;
  certificate.examples_per_unknown = static_cast<double>(learner.report.active_examples) / d;
  certificate.parity = std::move(learner.report);
  explain_parity(options, certificate);
}

}  // namespace headlens::recovery

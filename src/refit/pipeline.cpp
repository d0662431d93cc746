// layer and tokens -> labels -> white tokens -> starts -> descent -> polish -> the best layer, beside the
// ways that look at weights alone.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "backend/backend.hpp"
#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "headlens/error.hpp"
#include "headlens/options.hpp"
#include "headlens/refit.hpp"
#include "linalg/vector_space.hpp"
#include "recover/levenberg_marquardt.hpp"
#include "refit/baselines.hpp"
#include "refit/descend.hpp"
#include "refit/grouping.hpp"
#include "refit/starts.hpp"
#include "refit/whiten.hpp"

namespace headlens {

using namespace refitting;

namespace {

constexpr int kRandomStarts = 3;
constexpr double kPolishEquations = 10, kFewestEquations = 2;  // per unknown
constexpr double kPolishFlops = 1e12;                          // half a minute or so
constexpr int kPolishInner = 40, kPolishSteps = 60;

// Clock, cancellation and what happened.
class Effort {
 public:
  Effort(const RefitOptions& options, const Execution& execution) : execution_(execution) {
    if (options.time_limit_seconds) limit_ = *options.time_limit_seconds;
    const std::string_view machine = context().machine.name();
    require(machine != "cuda", option("backend"), ": ", machine, " given, but refits run on the processor");
  }
  bool expired() {
    execution_.check_cancelled();
    late_ = late_ || (limit_ && seconds() >= *limit_);
    return late_;
  }
  backend::Context context() const { return backend::context_of(execution_); }
  bool late() const { return late_; }
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  void step(const std::string& phase, Index heads, int at, int of, double error) {
    trace.push_back({phase, heads, seconds(), error, at});
    execution_.report(phase, at, of);
  }
  // What work() returns, as a part of the phase.
  template <class Work>
  auto timed(const std::string& name, Work&& work) {
    const double before = seconds();
    auto out = work();
    phases.push_back({name, seconds() - before});
    return out;
  }

  std::vector<TracePoint> trace;
  std::vector<Phase> phases;

 private:
  const Execution& execution_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::optional<double> limit_;
  bool late_ = false;
};

// Tokens with the last coordinate 1 where there are biases; rows of padding stay zero.
Matrix<double> rows_of(const Array& x, const std::vector<Index>& lengths, bool bias) {
  const Index n = x.dim(0), k = x.dim(1), d = x.dim(2);
  Matrix<double> out = Matrix<double>::zeros(n * k, d + (bias ? 1 : 0));
  for (Index row = 0; row < n * k; ++row) {
    std::copy_n(x.data<double>() + row * d, d, out.view().row(row));
    const bool there = lengths.empty() || row % k < lengths[static_cast<std::size_t>(row / k)];
    if (bias && there) out(row, d) = 1;
  }
  return out;
}

// The last fifth is held out; the tenth before it chooses among starts.
struct Cut {
  TiedExamples train, choose, both, held;
  const TiedLayer* teacher = nullptr;  // the layer that is made smaller, for white tokens

  // A layer that labels new examples may learn those that choose, too, once a start is chosen.
  const TiedExamples& for_the_best() const { return teacher ? both : train; }
};
Cut cut(const TiedExamples& all) {
  const Index n = all.count(), held = std::max<Index>(1, n / 5), choose = std::max<Index>(1, n / 10);
  require(n >= 8, "refit: ", n, " examples given, expected 8 or more: some are held out");
  return {all.part(0, n - held - choose), all.part(n - held - choose, choose), all.part(0, n - held),
          all.part(n - held, held)};
}

struct Candidate {
  std::string name;
  TiedLayer layer;      // for white tokens
  double error = 1;     // on the examples that choose
  bool solved = false;  // its outputs are the best for the examples for training
};
Candidate copy_of(const Candidate& c) { return {c.name, copy_of(c.layer), c.error, c.solved}; }

Candidate measured(std::string name, TiedLayer layer, const Cut& data, int threads) {
  const double error = relative_error(layer, data.choose, threads);
  return {std::move(name), std::move(layer), std::isfinite(error) ? error : 1e300};
}

// With the best outputs for the examples for training alone: those that choose say nothing of a layer whose
// outputs were fitted to them.
Candidate solved(std::string name, TiedLayer layer, const Cut& data, int threads) {
  const bool found = solve_readout(layer, data.train, threads);
  Candidate out = measured(std::move(name), std::move(layer), data, threads);
  out.solved = found;
  return out;
}

Candidate better(Candidate a, Candidate b) { return b.error < a.error ? std::move(b) : std::move(a); }

Candidate descended(const Candidate& start, const Cut& data, const TiedExamples& examples, int steps,
                    const RefitOptions& options, Effort& effort, int threads) {
  const std::string phase = "descent from " + start.name;
  TiedLayer end = descend(
      start.layer, examples, {.steps = steps, .seed = options.seed, .teacher = data.teacher},
      [&](int step, double error) {
        if (step > 0 && step % std::max(1, steps / 50) == 0)
          effort.step(phase, start.layer.shape.heads, step, steps, error);
        return effort.expired();
      },
      threads);
  return better(copy_of(start), solved(start.name, std::move(end), data, threads));
}

// Levenberg-Marquardt on the first examples that determine the layer, as many steps as the work allows.
Candidate polished(const Candidate& start, const Cut& data, Effort& effort, int threads) {
  const TiedShape& shape = start.layer.shape;
  const double unknowns =
      static_cast<double>(shape.rows * shape.columns() + shape.features() * shape.outputs);
  const double per_example = static_cast<double>(data.train.tokens * shape.outputs);
  const Index count = std::clamp<Index>(
      static_cast<Index>(std::ceil(kPolishEquations * unknowns / per_example)), 1, data.train.count());
  const TiedExamples part = data.train.part(0, count);
  const double flops =
      static_cast<double>(part.x.rows) * (4.0 * static_cast<double>(shape.rows * shape.columns()) +
                                          8.0 * static_cast<double>(shape.features() * shape.outputs));
  const int steps = std::min(kPolishSteps, static_cast<int>(kPolishFlops / (kPolishInner * flops)));
  const bool overfits = per_example * static_cast<double>(count) < kFewestEquations * unknowns;
  if (steps < 2 || overfits) return copy_of(start);
  const backend::Context context = effort.context();
  const std::unique_ptr<backend::LayerProblem> problem = context.machine.make_tied_problem(
      {.x = part.x, .y = part.y, .tokens = part.tokens, .lengths = part.lengths}, shape, context);
  std::unique_ptr<backend::LayerPoint> point = problem->make_point();
  point->parameters = headlens::copy_of(start.layer.parameters);
  recovery::LmOptions options{.ridge = 1e-10, .mu = 1e-3, .max_steps = steps, .max_inner = kPolishInner};
  options.stall_steps = 10, options.stall_factor = 0.99;
  recovery::minimise(
      *problem, point, options, [&] { return effort.expired(); },
      [&](int step, double squares) { effort.step("polish", shape.heads, step, steps, std::sqrt(squares)); });
  TiedLayer end{shape, headlens::copy_of(point->parameters), headlens::copy_of(point->w)};
  Candidate own = measured(start.name, copy_of(end), data, threads);
  return better(copy_of(start), better(std::move(own), solved(start.name, std::move(end), data, threads)));
}

// Every start with its best outputs; a short descent from each; a long one from the best; polish.
Candidate search(std::vector<Candidate> starts, const Cut& data, const RefitOptions& options, Effort& effort,
                 int threads) {
  const int steps = static_cast<int>(options.steps), first_steps = steps / (data.teacher ? 10 : 5);
  Candidate best{"", {}, 1e301};
  for (Candidate& start : starts) {
    if (effort.expired()) break;
    Candidate with_outputs = solved(start.name, copy_of(start.layer), data, threads);
    const bool alone = starts.size() == 1;
    Candidate end = better(std::move(start), std::move(with_outputs));
    if (!alone)
      end = effort.timed("descent from " + end.name, [&] {
        return descended(end, data, data.train, first_steps, options, effort, threads);
      });
    best = better(std::move(best), std::move(end));
  }
  if (best.error > 1e300) return std::move(starts.front());
  best = effort.timed("descent from the best", [&] {
    return descended(best, data, data.for_the_best(), steps, options, effort, threads);
  });
  if (!effort.expired()) best = effort.timed("polish", [&] { return polished(best, data, effort, threads); });
  if (best.solved) solve_readout(best.layer, data.for_the_best(), threads);
  return best;
}

// The heads in the order of the groups that cost least.
TiedLayer in_groups(const TiedLayer& heads, const Target& target, const Cut& data,
                    const RefitOptions& options, Effort& effort, int threads) {
  const Matrix<double> costs = pair_costs(
      heads, data.train, {.rank = target.rank, .seed = options.seed}, [&] { return effort.expired(); },
      threads);
  return in_order(heads, cheapest_groups(costs, target.groups, options.seed));
}

RefitShape shape_of(const TiedShape& s) { return {s.heads, s.rank, s.value_rank, s.groups, s.parameters()}; }

void mark_front(std::vector<RefitRow>& rows) {
  for (RefitRow& row : rows)
    row.on_front = std::none_of(rows.begin(), rows.end(), [&](const RefitRow& other) {
      const bool as_good =
          other.shape.parameters <= row.shape.parameters && other.held_out_error <= row.held_out_error;
      return as_good &&
             (other.shape.parameters < row.shape.parameters || other.held_out_error < row.held_out_error);
    });
}

Refit finish(const Candidate& best, const Whitening& white, const Cut& data, std::vector<RefitRow> rows,
             Effort& effort, int threads) {
  Refit out;
  out.train_error = relative_error(best.layer, data.train, threads);
  out.held_out_error = relative_error(best.layer, data.held, threads);
  out.shape = shape_of(best.layer.shape);
  out.layer = heads_of(white.from_white(best.layer, threads), "refit");
  out.start = best.name;
  out.tokens = data.train.tokens;
  out.held_out = data.held.count();
  out.examples = data.train.count() + data.choose.count() + out.held_out;
  rows.push_back({"refit", out.shape, out.held_out_error, true});
  mark_front(rows);
  out.rows = std::move(rows);
  out.status = effort.late() ? RefitStatus::out_of_time : RefitStatus::refitted;
  out.trace = std::move(effort.trace);
  out.phases = std::move(effort.phases);
  out.seconds = effort.seconds();
  return out;
}

void check_memory(const TiedShape& shape, Index rows, const Execution& execution) {
  MemoryBudget(execution).require(
      8.0 * static_cast<double>(rows) * static_cast<double>(3 * shape.rows + 2 * shape.outputs),
      join("a refit on ", rows, " tokens"));
}

}  // namespace

Refit refit(const LayerHeads& layer, const Tokens& tokens, const RefitOptions& options,
            const Execution& execution) {
  const Heed heeding(execution);
  options.validate();
  Effort effort(options, execution);
  const int threads = thread_count(execution);
  const Array& x = tokens.x;
  require(x.rank() == 3 && x.dim(2) == layer.dim(), "refit: the tokens have shape ", format_shape(x.shape()),
          ", expected (n, k, ", layer.dim(), ") as the layer has");
  TiedLayer teacher = tied_of(layer);
  require(options.mask == Mask::none || !layer.mask || *layer.mask == options.mask, option("mask"), ": ",
          name(options.mask), " given, but ", layer.name, " has ", name(*layer.mask));
  if (!layer.mask) teacher.shape.mask = options.mask;
  const Target target = target_of(teacher.shape, options);
  check_memory(teacher.shape, x.dim(0) * x.dim(1), execution);
  const Matrix<double> rows = rows_of(x, tokens.lengths, teacher.shape.bias);
  const Matrix<double> labels = apply_tied(teacher, rows, x.dim(1), tokens.lengths, threads);
  const Cut plain = cut({rows.view(), labels.view(), x.dim(1), tokens.lengths});
  const Whitening white = whiten(plain.both.x, threads);
  const Matrix<double> turned = white.tokens(rows, threads);
  const TiedLayer white_teacher = white.in_white(teacher, threads);
  Cut data = cut({turned.view(), labels.view(), x.dim(1), tokens.lengths});
  data.teacher = &white_teacher;
  std::vector<RefitRow> table;
  for (const Smaller& one : baselines(teacher, target))
    table.push_back(
        {one.name, shape_of(one.layer.shape), relative_error(one.layer, plain.held, threads), one.wanted});
  std::vector<Candidate> starts;
  const auto grouped = [&](const TiedLayer& heads) {
    return effort.timed("groups of heads",
                        [&] { return in_groups(heads, target, data, options, effort, threads); });
  };
  for (Smaller& one : starts_for(teacher, white_teacher, target, grouped))
    starts.push_back(measured(one.name, one.white ? std::move(one.layer) : white.in_white(one.layer, threads),
                              data, threads));
  const Candidate best = search(std::move(starts), data, options, effort, threads);
  return finish(best, white, data, std::move(table), effort, threads);
}

Refit refit(const Examples& examples, const RefitOptions& options, const Execution& execution) {
  const Heed heeding(execution);
  options.validate();
  require(options.heads && options.rank, "refit: a refit to examples needs ", option("heads"), " and ",
          option("rank"), ": there is no layer that tells them");
  require(examples.seen.empty(), "refit: labels are missing; a refit to examples needs all of them");
  Effort effort(options, execution);
  const int threads = thread_count(execution);
  TiedShape shape{.rows = examples.dim() + 1,
                  .outputs = examples.outputs(),
                  .heads = *options.heads,
                  .groups = options.kv_groups.value_or(*options.heads),
                  .rank = *options.rank,
                  .value_rank = *options.rank,
                  .bias = true,
                  .mask = options.mask};
  check_groups(shape);
  check_memory(shape, examples.count() * examples.tokens(), execution);
  const Matrix<double> rows = rows_of(examples.x, examples.lengths, true);
  const MatrixView<const double> labels(examples.y.data<double>(), rows.rows(), examples.outputs());
  const Whitening white = whiten(rows, threads);
  const Matrix<double> turned = white.tokens(rows, threads);
  const Cut data = cut({turned.view(), labels, examples.tokens(), examples.lengths});
  std::vector<Candidate> starts;
  for (int start = 0; start < kRandomStarts; ++start)
    starts.push_back(
        measured(join("random start ", start + 1), random_layer(shape, options.seed, start), data, threads));
  const Candidate best = search(std::move(starts), data, options, effort, threads);
  return finish(best, white, data, {}, effort, threads);
}

}  // namespace headlens

#include "predict/score_blocks.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <mutex>

#include "backend/backend.hpp"
#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "headlens/error.hpp"
#include "linalg/tiles.hpp"
#include "predict/check_fits.hpp"

namespace headlens::prediction {
namespace {

// Rows of a block: whole tiles, about a megabyte of tokens, and where there are few, enough blocks for many
// threads. The threads there are do not count: sums over blocks must not depend on them.
Index rows_in_block(const backend::Scorer& scorer, Index rows, double row_bytes) {
  constexpr double kBytes = 1 << 20;
  constexpr Index kBlocks = 256;
  const auto by_bytes = static_cast<Index>(std::min(kBytes / row_bytes, 0x1p40));
  const Index wanted = std::min({scorer.largest_block(), by_bytes, rows / kBlocks});
  return std::max<Index>(1, wanted / scorer.tile_sets()) * scorer.tile_sets();
}

// Blocks that are worked on at once, as many as threads and memory allow, and the threads of each.
struct Team {
  int blocks = 1;
  int threads_each = 1;
};

Team make_team(const Model& model, const backend::Scorer& scorer, Index block_sets, Index all_sets,
               double fixed_bytes, double read_bytes, const backend::Context& context) {
  Team team;
  (scorer.wants_all_threads() ? team.threads_each : team.blocks) = context.threads;
  const double scores = 8.0 * static_cast<double>(block_sets) * static_cast<double>(model.outputs);
  const double model_bytes =
      static_cast<double>(model.heads.bytes() + model.values.bytes()) + scorer.packed_bytes();
  const auto needed = [&] {
    const double each = scores + read_bytes + scorer.buffer_bytes(block_sets, team.threads_each);
    return fixed_bytes + model_bytes + team.blocks * each;
  };
  const MemoryBudget budget(context.execution);
  while (team.blocks > 1 && !budget.fits(needed())) --team.blocks;
  budget.require(needed(), join("prediction of ", all_sets, " sets"));
  return team;
}

// body() for every block, on the threads of the team; progress and cancellation on the calling one.
void for_blocks(const Team& team, Index blocks, const Execution& execution,
                const std::function<void(Index block, int threads)>& body) {
  parallel_for(team.blocks, blocks, [&](Index block, int worker) {
    if (worker == 0) execution.report("predict", static_cast<double>(block), static_cast<double>(blocks));
    body(block, team.threads_each);
  });
}

// Phi V + b. Throws Error if a score overflows.
Matrix<double> score(const Model& model, const backend::Scorer& scorer, const Sets& sets, Tile range,
                     int threads) {
  Matrix<double> out(range.size, model.outputs);
  scorer.multiply(sets, range.begin, range.begin + range.size, out, threads);
  for (Index i = 0; i < out.rows(); ++i)
    for (Index c = 0; c < out.cols(); ++c) {
      out(i, c) += model.intercept.at(c);
      require(std::isfinite(out(i, c)), sets.name(), ": the predictions overflow: scale the tokens down");
    }
  return out;
}

}  // namespace

void score_blocks(const Model& model, const Sets& sets, const Execution& execution, ScoreSink& sink) {
  const Heed heeding(execution);
  check_fits(model, sets);
  const backend::Context context = backend::context_of(execution);
  const auto scorer = context.machine.make_scorer(model, sets.max_keys());
  const Index n = sets.count();
  const double data = static_cast<double>(sets.query().bytes() + sets.keys().bytes());
  const Index step = rows_in_block(*scorer, n, data / static_cast<double>(n));
  const Team team = make_team(model, *scorer, step, n, sink.bytes() + sets.host_bytes(), 0, context);
  sink.start(tile_count(n, step));
  for_blocks(team, tile_count(n, step), execution, [&](Index block, int threads) {
    const Tile range = tile_at(n, step, block);
    const Matrix<double> scores = score(model, *scorer, sets, range, threads);
    sink.take({block, range.begin, scores});
  });
}

void score_blocks(const Model& model, SetReader& reader, const Execution& execution, ScoreSink& sink) {
  const Heed heeding(execution);
  check_fits(model, reader);
  const backend::Context context = backend::context_of(execution);
  const auto scorer = context.machine.make_scorer(model, reader.max_keys());
  const Index sets_in_row = reader.count() / reader.rows();
  const Index step = rows_in_block(*scorer, reader.rows(), reader.row_bytes());
  const double offsets = 8.0 * static_cast<double>(reader.equal_sizes() ? 0 : reader.rows());
  const Team team = make_team(model, *scorer, step * sets_in_row, reader.count(), sink.bytes() + offsets,
                              reader.largest_block_bytes(step), context);
  sink.start(tile_count(reader.rows(), step));
  std::timed_mutex mutex;  // one thread reads while the others compute
  bool readable = true;
  for_blocks(team, tile_count(reader.rows(), step), execution, [&](Index, int threads) {
    std::unique_lock lock(mutex, std::defer_lock);
    while (!lock.try_lock_for(std::chrono::milliseconds(50))) heed();  // it is not served in order
    if (!readable) return;                                             // its error is on the way
    readable = false;
    const SetBlock block = reader.next(step);
    readable = true;
    lock.unlock();
    const Sets& sets = block.data.sets;
    const Matrix<double> scores = score(model, *scorer, sets, {0, sets.count()}, threads);
    const double* targets = reader.outputs() > 0 ? block.data.targets.values.data() : nullptr;
    sink.take({block.first / (step * sets_in_row), block.first, scores, targets});
  });
}

}  // namespace headlens::prediction

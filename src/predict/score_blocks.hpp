// The scores of all sets, in blocks: from memory, or from a file that is read as they are needed. Memory
// grows with the blocks at work, one per thread, not with the sets. Blocks depend on shapes alone.
#pragma once

#include "headlens/execution.hpp"
#include "headlens/model.hpp"
#include "headlens/set_reader.hpp"
#include "linalg/matrix.hpp"

namespace headlens::prediction {

struct ScoredBlock {
  Index number = 0;  // of the block
  Index first = 0;   // number of its first set
  MatrixView<const double> scores;
  const double* targets = nullptr;  // (sets, q), from files with labels only
};

class ScoreSink {
 public:
  virtual ~ScoreSink() = default;
  virtual double bytes() const = 0;                 // what start() will allocate
  virtual void start(Index blocks) = 0;             // once everything is known to fit in memory
  virtual void take(const ScoredBlock& block) = 0;  // once per block, on any thread and in any order
};

// Error unless the model can read the sets, and everything fits in memory.
void score_blocks(const Model& model, const Sets& sets, const Execution& execution, ScoreSink& sink);
void score_blocks(const Model& model, SetReader& reader, const Execution& execution, ScoreSink& sink);

}  // namespace headlens::prediction

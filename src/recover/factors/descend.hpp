// The first phase: Adam in float on all factors, on batches of examples, from a random start.
//
// The error falls in one plunge, after which Newton takes over. The phase is counted in steps, never in
// seconds, and ends when the held-out error shows that Newton will do, or that descent overfits.
#pragma once

#include <optional>

#include "recover/factors/factors.hpp"

namespace headlens::recovery {

enum class DescentEnd {
  found,     // Newton has taken over
  overfits,  // the training error falls, the held-out error does not
  flat,      // neither falls any more
  out_of_steps,
  out_of_time
};

struct DescentOptions {
  double rate = 3e-3;
  int most_steps = 4000;
  double near = 0.05;  // held-out |F - Y| / |Y| at which Newton is first tried
};

struct DescentResult {
  Factors factors;
  DescentEnd end = DescentEnd::out_of_steps;
  int steps = 0;
};

// Newton, as descent sees it.
class Successor {
 public:
  virtual ~Successor() = default;
  virtual void look(const Factors& factors) = 0;  // every few steps: where descent is
  // At `near`, and whenever the held-out error has halved since: a try that is given up where it does not
  // converge at once. At the end of a descent that finds nothing more: the last try, which is patient. True
  // if the descent is over.
  enum class Try { early, last };
  virtual bool take_over(const Factors& factors, Try which) = 0;
  // Where descent gets no further: every head that it has found once, and fresh heads in the places that are
  // left over. Nothing where no place is left.
  virtual std::optional<Factors> with_fresh_heads(const Factors& factors) = 0;
  // Where surplus heads share the work of the layer's: as many heads as were asked for, merged at a loss.
  // Nothing where merging loses little, or the number of heads is not known.
  virtual std::optional<Factors> with_heads_asked_for(const Factors& factors) = 0;
};

// The memory of a descent, examples left out.
double descent_bytes(const Split& split, const backend::HeadRanks& ranks, const Effort& effort);

// The first held-out examples only: a look is to cost less than the steps between two looks. All of them
// where the first have few labels, or small ones, which would say little.
Split few_held_out(const Split& split);

DescentResult descend(const Split& split, Factors start, const DescentOptions& options, std::uint64_t seed,
                      Successor& newton, Effort& effort);

}  // namespace headlens::recovery

// The options of targets: what is drawn, and what theory says about them.
#include "headlens/theory.hpp"
#include "options/table.hpp"

namespace headlens {

using options::choice;

template <>
const std::vector<Option<TaskOptions>>& options_of<TaskOptions>() {
  using O = TaskOptions;
  static const std::vector<Option<O>> rows = options::table<O>({
      {{.name = "task", .help = "the target"}, choice<&O::task>()},
      {{.name = "degree", .shown = "p", .help = "the power p", .more = ", 0 to 64", .range = from_to(0, 64)},
       &O::degree},
      {{.name = "pure", .help = "leave out the share of the target that depends on one token alone"},
       &O::pure},
      {{.name = "matrix", .help = "S: identity, shift (of the coordinates) or random (orthogonal)"},
       choice<&O::matrix>()},
      {{.name = "weight", .shown = "g", .help = "g: 0 is the identity alone, 1 the shift alone"}, &O::weight},
      {{.name = "dim", .shown = "d", .help = "coordinates of a token", .range = at_least(1)}, &O::dim},
      // Kept as the fewest and the most.
      {{.name = "keys",
        .shown = "N",
        .help = "keys per set: N, or A:B for ragged sets of A to B keys",
        .range = at_least(1),
        .fallback = "16"},
       {}},
      {{.name = "count", .shown = "n", .help = "number of sets", .range = at_least(1)}, &O::count},
      {{.name = "seed", .shown = "S", .help = "seed of the tokens, set sizes and noise"}, &O::seed},
      {{.name = "target-seed",
        .shown = "T",
        .help = "seed of the target (beta, S): equal in train and test files"},
       &O::target_seed},
      {{.name = "noise",
        .shown = "SIGMA",
        .help = "standard deviation of Gaussian noise on y",
        .range = at_least(0)},
       &O::noise},
      {{.name = "precision", .help = "f32 or f64, of the tokens"}, choice<&O::precision>()},
  });
  return rows;
}

template <>
const std::vector<Option<TheoryOptions>>& options_of<TheoryOptions>() {
  using O = TheoryOptions;
  static const std::vector<Option<O>> rows = options::table<O>({
      {{.name = "model", .help = "rfa, brfa (heads around the identity), or mlp (no attention)"},
       choice<&O::model>()},
      {{.name = "bias-scale",
        .shown = "b",
        .help = "brfa: scale of the mean of the heads",
        .more = ", -4 to 4",
        .nothing = "auto",
        .unset = "1",
        .range = from_to(-4, 4)},
       &O::bias_scale},
      {{.name = "samples",
        .shown = "n",
        .help = "numbers of training sets: A:B doubles from A to B; or a list A,B,C",
        .fallback = "64:65536"},
       &O::samples},
      {{.name = "heads",
        .shown = "M|inf",
        .help = "number of random heads of rfa, or inf",
        .nothing = "inf",
        .range = from_to(1, static_cast<double>(kMostFiniteHeads))},
       &O::heads},
      {{.name = "error",
        .shown = "E",
        .help = "also print the heads of rfa that are needed for this predicted error",
        .nothing = "none",
        .unset = "none",
        .range = above(0)},
       &O::error},
  });
  return rows;
}

HEADLENS_OPTIONS(TaskOptions)
HEADLENS_OPTIONS(TheoryOptions)

}  // namespace headlens

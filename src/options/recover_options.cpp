// The options of recovery.
#include <optional>
#include <string>
#include <utility>

#include "headlens/refit.hpp"
#include "options/table.hpp"

namespace headlens {

using options::choice;

namespace {

using R = RecoverOptions;

Option<R> method_row() {
  return {
      {.name = "method",
       .help = "varpro (variable projection) or sculpt (the paper's six phases); moments or gradient, shown "
               "without a polish; for hard layers brute-force (all hidden sets), for hard parities "
               "linear-algebra "
               "(equations over GF(2))",
       .more = message("; see [the paper's six phases](recovery.md#the-papers-method-sculpting), "
                       "[moments alone, or gradient descent alone]"
                       "(recovery.md#moments-alone-and-gradient-descent-alone) (which needs ",
                       option("heads"),
                       ") and [learners that know the class](hardness.md#learners-that-know-the-class)")},
      choice<&R::method>()};
}

Option<R> rank_row() {
  return {
      {.name = "rank",
       .shown = "r",
       .help = "rank of the heads: auto, full (every entry of Theta is an unknown) or a number",
       .more =
           ": [heads in factors](recovery.md#layers-of-the-size-people-have) are what auto takes for tokens "
           "of more than 48 coordinates"},
      &R::rank};
}

Option<R> variant_row() {
  return {{.name = "variant",
           .help = message(
               "auto tries the usual masks, biases and rotary positions and names the simplest that explains "
               "the labels (with ",
               option("heads"), "); given takes the three options below")},
          choice<&R::choice>()};
}

Option<R> best_fit_row() {
  return {
      {.name = "best-fit",
       .help = "the best layer of the given number of heads for labels of any origin, with its excess error; "
               "never called recovered",
       .more = "; see "
               "[labels that are not those of a layer](recovery.md#labels-that-are-not-those-of-a-layer); "
               "varpro only"},
      &R::best_fit};
}

Option<R> time_limit_row() {
  return {{.name = "time-limit",
           .shown = "T",
           .help = "seconds after which to stop with a status",
           .more = ", whatever the method is at",
           .nothing = "none",
           .unset = "none",
           .range = above(0)},
          &R::time_limit_seconds};
}

Option<R> rotary_row() {
  return {
      {.name = "rotary",
       .shown = "R",
       .help = "rotary positions, as base=10000,layout=half (or interleaved), with share=0.5 where only a "
               "part of the columns is turned; or none"},
      &R::rotary};
}

template <class O>
Option<O> groups_row() {
  return {{.name = "kv-groups",
           .shown = "g",
           .help = "groups of heads that share keys and values",
           .nothing = "none",
           .unset = "one per head",
           .range = at_least(1)},
          &O::kv_groups};
}

// A number of something that is that of the layer where it is not given.
Option<RefitOptions> size_row(std::string name, std::string shown, Text help,
                              std::optional<Index> RefitOptions::*member) {
  return {{.name = std::move(name),
           .shown = std::move(shown),
           .help = std::move(help),
           .nothing = "none",
           .unset = "as in the layer",
           .range = at_least(1)},
          member};
}

}  // namespace

template <>
const std::vector<Option<RecoverOptions>>& options_of<RecoverOptions>() {
  using O = RecoverOptions;
  static const std::vector<Option<O>> rows = options::table<O>({
      {{.name = "heads",
        .shown = "m",
        .help = "number of heads, or auto",
        .nothing = "auto",
        .range = at_least(1)},
       &O::heads},
      {{.name = "max-heads", .shown = "M", .help = "most heads that auto tries", .range = at_least(1)},
       &O::max_heads},
      rank_row(),
      variant_row(),
      {{.name = "mask",
        .help = "tokens that a token sees: all, or those up to itself (causal)",
        .more = "; see [layers as people have them](layers.md)"},
       choice<&O::mask>()},
      {{.name = "bias",
        .help = "query biases (a vector per head), and one constant for value and output biases"},
       &O::bias},
      rotary_row(),
      groups_row<O>(),
      {{.name = "starts", .shown = "R", .help = "starts for each number of heads", .range = at_least(1)},
       &O::starts},
      {{.name = "start",
        .help = "random, or spectral (many examples, three tokens or more)",
        .more =
            ": at small random heads, or [in the span that a moment of the examples shows](recovery.md#how)"},
       choice<&O::start>()},
      method_row(),
      {{.name = "steps",
        .shown = "T",
        .help = "steps of gradient descent for each start",
        .range = at_least(1)},
       &O::steps},
      best_fit_row(),
      time_limit_row(),
      {{.name = "seed", .shown = "S", .help = "seed of the starts"}, &O::seed},
  });
  return rows;
}

template <>
const std::vector<Option<SculptOptions>>& options_of<SculptOptions>() {
  using O = SculptOptions;
  const Mention sculpt = option("method", "sculpt");
  static const std::vector<Option<O>> rows = options::table<O>({
      {{.name = "sculpt-form",
        .help = message("the body of ", sculpt, ": an ellipsoid (least-squares) or a polytope (lp)")},
       choice<&O::form>()},
      {{.name = "span-form",
        .help =
            message("how ", sculpt,
                    " finds the long directions of the body: eigenvectors, or membership questions alone")},
       choice<&O::span>()},
      {{.name = "polish",
        .help = message("polish what ", sculpt, " found; sculpting alone is never certified"),
        .more = ", but [shows what sculpting reaches](recovery.md#the-papers-method-sculpting)"},
       &O::polish},
  });
  return rows;
}

template <>
const std::vector<Option<RefitOptions>>& options_of<RefitOptions>() {
  using O = RefitOptions;
  static const std::vector<Option<O>> rows = options::table<O>({
      size_row("heads", "m", "heads of the smaller layer", &O::heads),
      size_row("rank", "r", "rank of its heads: of Theta and of W", &O::rank),
      groups_row<O>(),
      {{.name = "mask", .help = "mask of a checkpoint or of examples, which do not tell"},
       choice<&O::mask>()},
      {{.name = "steps",
        .shown = "T",
        .help = "steps of the descent from the best start",
        .more = "; every start gets a fifth of them first",
        .range = at_least(1)},
       &O::steps},
      {{.name = "time-limit",
        .shown = "T",
        .help = "seconds after which to stop with the best layer so far",
        .nothing = "none",
        .unset = "none",
        .range = above(0)},
       &O::time_limit_seconds},
      {{.name = "seed", .shown = "S", .help = "seed of the tokens, the batches and random starts"}, &O::seed},
  });
  return rows;
}

template <>
const std::vector<Option<RefitInputs>>& options_of<RefitInputs>() {
  using O = RefitInputs;
  static const std::vector<Option<O>> rows = options::table<O>({
      {{.name = "inputs",
        .help = "tokens at random, where no file is given: signs or standard normal numbers"},
       choice<&O::inputs>()},
      {{.name = "count", .shown = "n", .help = "number of examples at random", .range = at_least(8)},
       &O::count},
      {{.name = "length", .shown = "k", .help = "tokens per example at random", .range = at_least(2)},
       &O::length},
  });
  return rows;
}

HEADLENS_OPTIONS(RecoverOptions)
HEADLENS_OPTIONS(RefitOptions)
HEADLENS_OPTIONS(RefitInputs)
HEADLENS_OPTIONS(SculptOptions)

}  // namespace headlens

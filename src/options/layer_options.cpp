// The options of layers: random and hard ones, examples of them, and what is looked at.
#include "headlens/fourier.hpp"
#include "options/table.hpp"

namespace headlens {

using options::choice;

template <>
const std::vector<Option<TeacherOptions>>& options_of<TeacherOptions>() {
  using O = TeacherOptions;
  static const std::vector<Option<O>> rows = options::table<O>({
      {{.name = "heads", .shown = "m", .help = "number of heads", .range = at_least(1)}, &O::heads},
      {{.name = "dim", .shown = "d", .help = "coordinates of a token", .range = at_least(1)}, &O::dim},
      {{.name = "outputs",
        .shown = "e",
        .help = "coordinates of an output",
        .unset = "d",
        .range = at_least(1)},
       &O::outputs},
      {{.name = "scale",
        .shown = "s",
        .help = "standard deviation of the logits on random signs",
        .more = ", for every head",
        .range = at_least(0)},
       &O::scale},
      {{.name = "rank",
        .shown = "r",
        .help = "rank of Theta and W; of Q and K with rotary positions",
        .unset = "full; rotary: d/m",
        .range = at_least(1)},
       &O::rank},
      {{.name = "mask", .help = "tokens that a token sees: all, or those up to itself"}, choice<&O::mask>()},
      {{.name = "bias", .help = "query biases, and a constant for value and output biases"}, &O::bias},
      {{.name = "rotary",
        .shown = "R",
        .help = "rotary positions, as base=10000,layout=half (or interleaved), with share=0.5 where only a "
                "part of the columns is turned; or none"},
       &O::rotary},
      {{.name = "seed", .shown = "S", .help = "seed of the layer, the inputs and the noise"}, &O::seed},
  });
  return rows;
}

template <>
const std::vector<Option<ExampleOptions>>& options_of<ExampleOptions>() {
  using O = ExampleOptions;
  static const std::vector<Option<O>> rows = options::table<O>({
      {{.name = "tokens", .shown = "k", .help = "tokens per example", .range = at_least(2)}, &O::tokens},
      {{.name = "count", .shown = "n", .help = "number of examples", .range = at_least(1)}, &O::count},
      {{.name = "inputs", .help = "random signs or standard normal numbers"}, choice<&O::inputs>()},
      {{.name = "noise",
        .shown = "SIGMA",
        .help = "standard deviation of Gaussian noise on Y",
        .range = at_least(0)},
       &O::noise},
      {{.name = "padding",
        .help = "examples of different lengths, 2 to k tokens at random; the file then holds lengths"},
       &O::padding},
      {{.name = "seed", .shown = "S", .help = "seed of the inputs and the noise"}, &O::seed},
  });
  return rows;
}

template <>
const std::vector<Option<HardOptions>>& options_of<HardOptions>() {
  using O = HardOptions;
  static const std::vector<Option<O>> rows = options::table<O>({
      {{.name = "kind", .help = "the hidden function"}, choice<&O::kind>()},
      {{.name = "dim",
        .shown = "d",
        .help = "coordinates of a token",
        .more = "; the first is the control",
        .range = at_least(2)},
       &O::dim},
      {{.name = "size",
        .shown = "s",
        .help = "size of the hidden set; twice as many heads",
        .range = at_least(1)},
       &O::size},
      {{.name = "modulus",
        .shown = "q",
        .help = "of the hidden sum",
        .more = " t: the label is round(r (t mod q) / q) mod r",
        .range = from_to(2, 1000000)},
       &O::modulus},
      {{.name = "levels", .shown = "r", .help = "values of the label, 2 to q", .range = at_least(2)},
       &O::levels},
      // The size of a rounding's secret.
      {{.name = "weight", .shown = "w", .help = "coordinates in the hidden sum", .range = at_least(1)},
       &O::size},
      {{.name = "sharpness",
        .shown = "beta",
        .help = "beta: a step is off by 2 exp(-beta/2) at most",
        .range = above(0)},
       &O::sharpness},
      {{.name = "seed",
        .shown = "S",
        .help = "seed of the hidden set, the inputs and the noise",
        .more = ", and of the flips"},
       &O::seed},
  });
  return rows;
}

template <>
const std::vector<Option<InspectOptions>>& options_of<InspectOptions>() {
  using O = InspectOptions;
  static const std::vector<Option<O>> rows = options::table<O>({
      {{.name = "tokens", .shown = "k", .help = "number of tokens of a sampled input", .range = at_least(2)},
       &O::tokens},
      {{.name = "samples",
        .shown = "n",
        .help = "number of rows to sample, each from an input of its own",
        .range = at_least(1)},
       &O::samples},
      {{.name = "seed", .shown = "S", .help = "seed of the sampled inputs"}, &O::seed},
  });
  return rows;
}

template <>
const std::vector<Option<WeightsOptions>>& options_of<WeightsOptions>() {
  using O = WeightsOptions;
  static const std::vector<Option<O>> rows = options::table<O>({
      {{.name = "format", .help = "how the file names its weights"}, choice<&O::format>()},
      {{.name = "prefix",
        .shown = "P",
        .help = "what the names of the weights begin with, where a file has several layers"},
       &O::prefix},
      {{.name = "heads",
        .shown = "m",
        .help = "number of heads that the weights are cut into; needed with weights",
        .unset = "none",
        .range = at_least(1)},
       &O::heads},
      {{.name = "layer",
        .shown = "i",
        .help = "layer to read from weights of shape (layer, out, in), counted from 0",
        .nothing = "none",
        .unset = "the only one",
        .range = at_least(0)},
       &O::layer},
      {{.name = "restrict",
        .shown = "r",
        .help = "keep the first r coordinates of Theta and W only",
        .unset = "all",
        .range = at_least(1)},
       &O::restrict_dim},
  });
  return rows;
}

template <>
const std::vector<Option<FourierOptions>>& options_of<FourierOptions>() {
  using O = FourierOptions;
  static const std::vector<Option<O>> rows = options::table<O>({
      {{.name = "degree", .shown = "K", .help = "largest degree", .range = at_least(1)}, &O::degree},
      {{.name = "samples",
        .shown = "n",
        .help = "inputs to sample, where there are too many to take all",
        .range = at_least(2)},
       &O::samples},
      {{.name = "seed", .shown = "S", .help = "seed of the sampled inputs"}, &O::seed},
  });
  return rows;
}

HEADLENS_OPTIONS(TeacherOptions)
HEADLENS_OPTIONS(ExampleOptions)
HEADLENS_OPTIONS(HardOptions)
HEADLENS_OPTIONS(InspectOptions)
HEADLENS_OPTIONS(WeightsOptions)
HEADLENS_OPTIONS(FourierOptions)

}  // namespace headlens

// The options of random-feature attention: features, training, kernels.
#include "headlens/kernel.hpp"
#include "options/table.hpp"

namespace headlens {

using options::choice;

namespace {

// How the heads are drawn.
std::vector<Option<FeatureOptions>> rows_of_heads() {
  using O = FeatureOptions;
  return {{{.name = "bias-scale",
            .shown = "b",
            .help = "scale b of the mean b * diag(1, .., 1, 0) of the heads",
            .more = "; not for mlp",
            .nothing = "auto",
            .unset = "0; brfa: 1"},
           &O::bias_scale},
          {{.name = "weight-scale",
            .shown = "w",
            .help = "standard deviation of the random entries",
            .nothing = "auto",
            .unset = "0.5; mlp: 1/sqrt(2(N+1))",
            .range = at_least(0)},
           &O::weight_scale},
          {{.name = "mean",
            .shown = "FILE",
            .help = "matrix in place of the identity in the mean of the heads: .npy, d x d or (d+1) x (d+1)",
            .more = message(
                "; see [the mean and the rank of the heads]"
                "(random-feature-attention.md#the-mean-and-the-rank-of-the-heads); brfa, or rfa with ",
                option("bias-scale")),
            .unset = "the identity"},
           &O::mean},
          {{.name = "head-rank",
            .shown = "r",
            .help = "separate query and key matrices: the random part of a head has rank r",
            .more = "; has no closed form for infinitely many heads",
            .nothing = "full",
            .unset = "full",
            .range = from_to(1, static_cast<double>(kMostHeadRank))},
           &O::head_rank},
          {{.name = "precision", .help = "f32 or f64, of the tokens and of what is computed from them"},
           choice<&O::precision>()},
          {{.name = "seed", .shown = "S", .help = "seed of the heads"}, &O::seed}};
}

}  // namespace

template <>
const std::vector<Option<FeatureOptions>>& options_of<FeatureOptions>() {
  using O = FeatureOptions;
  static const std::vector<Option<O>> rows = options::table<O>(
      {
          {{.name = "model",
            .help = "rfa, brfa (identity mean) or mlp (no attention, equal set sizes)",
            .more = "; [the model](random-feature-attention.md#the-model)"},
           choice<&O::kind>()},
          {{.name = "heads",
            .shown = "M",
            .help = "number of random heads (neurons, for mlp), or inf: kernel regression",
            .more = " with [infinitely many heads](kernels.md#fitting)",
            .nothing = "inf",
            .range = from_to(1, static_cast<double>(kMostFiniteHeads))},
           &O::heads},
          {{.name = "score",
            .help = "relu, softmax, exp or step (1 above 0)",
            .more =
                ": how a head weighs its keys; mlp has relu only; softmax has no closed form for infinitely "
                "many heads"},
           choice<&O::score>()},
          {{.name = "positions", .help = "none, or sinusoidal encodings added to the keys"},
           choice<&O::positions>()},
      },
      rows_of_heads());
  return rows;
}

template <>
const std::vector<Option<FitOptions>>& options_of<FitOptions>() {
  using O = FitOptions;
  static const std::vector<Option<O>> rows = options::table<O>({
      {{.name = "loss", .help = "squared, huber, logistic or hinge (the last two: integer y, a classifier)"},
       choice<&O::loss>()},
      {{.name = "ridge",
        .shown = "X",
        .help = "penalty: a number, 0 (minimum norm), or auto (leave-one-out; 5 folds if not squared)",
        .nothing = "auto",
        .range = at_least(0)},
       &O::ridge},
      {{.name = "norm-ball",
        .shown = "K1,K2",
        .help = "sum |v_m| <= K1 and sum |v_m|^2 <= K2; replaces an automatic ridge",
        .nothing = "none",
        .unset = "none",
        .range = above(0)},
       &O::norm_ball},
      {{.name = "huber-delta",
        .shown = "D",
        .help = "residual at which the Huber loss turns linear",
        .range = above(0)},
       &O::huber_delta},
      {{.name = "intercept", .help = "fit a constant term"}, &O::intercept},
      {{.name = "solver",
        .help = "auto, primal, dual or iterative (squared loss)",
        .more = ", without a norm ball"},
       choice<&O::solver>()},
      {{.name = "centres",
        .shown = "m",
        .help = message("with ", option("heads", "inf"), ": fit on m random sets (Nystrom)"),
        .nothing = "all",
        .unset = "all, if the kernel matrix fits",
        .range = at_least(1)},
       &O::centres},
      {{.name = "block-sets",
        .shown = "B",
        .help = "sets whose features are held at once; never changes the model",
        .more = "; rounded up to a multiple of 1024",
        .unset = "chosen",
        .range = at_least(1)},
       &O::block_sets},
  });
  return rows;
}

template <>
const std::vector<Option<KernelOptions>>& options_of<KernelOptions>() {
  using O = KernelOptions;
  static const std::vector<Option<O>> rows = options::table<O>({
      {{.name = "exact",
        .help = "biased relu by Owen's T for every pair of keys: slower, 1e-14",
        .more = message("; refused with softmax and with ", option("head-rank"), ", where heads are drawn")},
       &O::exact},
      // Kept as the heads of the features.
      {{.name = "samples",
        .shown = "M",
        .help = message("heads that are drawn for softmax, and with ", option("head-rank")),
        .more = "; 32 or more",
        .range = at_least(1),
        .kind = OptionKind::whole,
        .fallback = "4096"},
       {}},
  });
  return rows;
}

HEADLENS_OPTIONS(FeatureOptions)
HEADLENS_OPTIONS(FitOptions)
HEADLENS_OPTIONS(KernelOptions)

}  // namespace headlens

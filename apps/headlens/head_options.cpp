// The options of the distribution of the heads that are no single number, shared by fit and kernel.
#include "command.hpp"
#include "headlens/arrays.hpp"
#include "headlens/model.hpp"
#include "words.hpp"

namespace headlens::app {

void add_head_options(CLI::App& command, HeadOptions& options) {
  command
      .add_option("--mean", options.mean,
                  "matrix in place of the identity in the mean of the heads (.npy, d x d or (d+1) x (d+1))")
      ->type_name("FILE");
  command
      .add_option(
          "--head-rank", options.rank,
          "separate query and key matrices: the random part of a head has rank r (default: full rank)")
      ->transform(whole_number<Index>(1, kMostHeadRank))
      ->type_name("r");
}

void apply_head_options(const HeadOptions& options, FeatureOptions& features) {
  if (!options.mean.empty()) features.mean = read_npy(options.mean);
  features.head_rank = options.rank;
}

}  // namespace headlens::app

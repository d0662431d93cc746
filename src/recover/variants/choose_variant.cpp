#include "recover/variants/choose_variant.hpp"

#include <algorithm>

#include "recover/factors/phases.hpp"
#include "recover/variants/recover_variant.hpp"
#include "recover/variants/variant_search.hpp"

namespace headlens::recovery {
namespace {

constexpr int kStarts = 2;
constexpr double kEquations = 16;  // per unknown: what the first examples give

// From simple to rich, so that the first that explains the labels has nothing that is not needed. The other
// layout of rotary positions is the same layer with the columns of Q and K in another order.
std::vector<RecoverOptions> usual_variants(const RecoverOptions& options, Index dim) {
  std::vector<RecoverOptions> out;
  for (const char* rotary : {"none", "base=10000,layout=half"})
    for (const bool bias : {false, true})
      for (const Mask mask : {Mask::none, Mask::causal}) {
        RecoverOptions next = options;
        next.mask = mask;
        next.bias = bias;
        next.rotary = rotary;
        const Index rank = rotary_rank(next, dim);
        if (rank == 0 || (!bias && next.variant().rotary->pairs(rank) > 0)) out.push_back(next);
      }
  return out;
}

}  // namespace

void choose_variant(const Split& split, Effort& effort, RecoverOptions& options, Certificate& certificate) {
  const Whitening whitening = variant_whitening(split, effort.threads());
  const Split white = in_white(whitening, split);
  RecoverOptions chosen = options;
  double least = 2;
  const auto try_all = [&] {
    for (const RecoverOptions& next : usual_variants(options, split.train_x.cols)) {
      if (effort.expired()) break;
      const VariantData data = variant_data(white, next, split.train_x.cols);
      const VariantCandidate found =
          search_variant(first_examples(data, *next.heads, kEquations), *next.heads,
                         std::min(kStarts, options.starts), options.seed, effort);
      certificate.variant_trials.push_back({data.variant, found.held_out_error});
      if (!(least < kProof) && found.held_out_error < least) {
        least = found.held_out_error;
        chosen = next;
      }
    }
  };
  timed_in(certificate, "variants", [&] { return effort.in_time(try_all); });
  chosen.choice = VariantChoice::given;
  options = chosen;
}

}  // namespace headlens::recovery

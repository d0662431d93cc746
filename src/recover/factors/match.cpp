#include "recover/factors/match.hpp"

#include "recover/factors/content.hpp"

namespace headlens::recovery {

Factors matched_to(const Factors& to, const Factors& other) {
  std::vector<OwnHead> heads;
  std::vector<bool> used(static_cast<std::size_t>(other.heads()));
  for (Index i = 0; i < to.heads(); ++i) {
    Index best = -1;
    double cosine = -2;
    for (Index j = 0; j < other.heads(); ++j) {
      if (used[static_cast<std::size_t>(j)]) continue;
      const double alike = theta_cosine(head_of(to, i), head_of(other, j));
      if (alike > cosine) {
        cosine = alike;
        best = j;
      }
    }
    used[static_cast<std::size_t>(best)] = true;
    heads.push_back(own_head(other, best));
  }
  backend::HeadRanks alone = other.ranks;  // in another order heads of one group are no neighbours
  alone.shared = 1;
  Factors out = assemble(heads, alone);
  out.train_error = other.train_error;
  out.held_out_error = other.held_out_error;
  return out;
}

}  // namespace headlens::recovery

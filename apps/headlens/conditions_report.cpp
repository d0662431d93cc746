#include "conditions_report.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace headlens::app {
namespace {

// A condition is asked with a limit where sculpting was still seen to work; the paper's own are asymptotic.
constexpr double kWorstCondition = 1000, kLeastDistance = 0.1, kLeastRankShare = 0.25, kMostIdentity = 0.5;

Json spectrum_json(const Spectrum& s) {
  return {{"rank", s.rank},
          {"full_rank", s.full},
          {"condition", optional_json(s.condition)},
          {"condition_on_range", s.on_range}};
}

std::string spectrum_text(const Spectrum& s) {
  if (s.condition) return fmt::format("condition {:.3g}", *s.condition);
  if (s.rank == 0) return "zero";
  return fmt::format("rank {} of {}; condition on its range {:.3g}", s.rank, s.full, s.on_range);
}

bool well_conditioned(const Spectrum& s) { return s.condition && *s.condition <= kWorstCondition; }

// Index of the head that is worst by this order.
template <class Worse>
std::size_t worst_of(std::size_t count, Worse&& worse) {
  std::size_t worst = 0;
  for (std::size_t i = 1; i < count; ++i)
    if (worse(i, worst)) worst = i;
  return worst;
}

}  // namespace

Json conditions_json(const Conditions& c) {
  Json heads = Json::array();
  for (const HeadConditions& head : c.per_head)
    heads.push_back({{"w", spectrum_json(head.w)},
                     {"theta_rank", head.theta_rank},
                     {"identity_share", head.identity_share}});
  return {{"per_head", heads}, {"w_sum", spectrum_json(c.sum)}};
}

std::string conditions_text(const Conditions& c, const Inspection& inspection) {
  if (c.per_head.empty()) return "";
  std::string text = "\nthe conditions under which sculpting is proved to work:";
  const auto line = [&](bool holds, const char* what, const std::string& number) {
    text += fmt::format("\n  [{}] {:<34} {}", holds ? "x" : " ", what, number);
  };
  const auto& heads = c.per_head;
  const std::size_t bad = worst_of(heads.size(), [&](std::size_t a, std::size_t b) {
    return std::pair(heads[b].w.condition.has_value(), heads[a].w.on_range) >
           std::pair(heads[a].w.condition.has_value(), heads[b].w.on_range);
  });
  line(well_conditioned(heads[bad].w), "every W well conditioned",
       fmt::format("head {} is worst: {}", bad, spectrum_text(heads[bad].w)));
  line(well_conditioned(c.sum), "the sum of all W well conditioned", spectrum_text(c.sum));
  if (inspection.closest)
    line(inspection.closest->distance >= kLeastDistance, "Theta apart from one another",
         fmt::format("heads {} and {} differ by {:.3g} of the larger", inspection.closest->a,
                     inspection.closest->b, inspection.closest->distance));
  const auto& sizes = inspection.per_head;
  const std::size_t low = worst_of(sizes.size(), [&](std::size_t a, std::size_t b) {
    return sizes[a].effective_rank < sizes[b].effective_rank;
  });
  line(sizes[low].effective_rank >= kLeastRankShare * static_cast<double>(inspection.dim),
       "Theta of high rank",
       fmt::format("head {} is lowest: effective rank {:.3g}, rank {}, of {}", low, sizes[low].effective_rank,
                   heads[low].theta_rank, inspection.dim));
  const std::size_t like = worst_of(heads.size(), [&](std::size_t a, std::size_t b) {
    return heads[a].identity_share > heads[b].identity_share;
  });
  line(heads[like].identity_share <= kMostIdentity, "Theta not near the identity",
       fmt::format("head {} is nearest: the identity has {} % of |Theta|^2", like,
                   percent(heads[like].identity_share)));
  if (inspection.agreement)
    line(inspection.agreement->sparse_matched.low > 0, "rows with all heads on one token",
         fmt::format("{:.4f} % of the rows", 100 * inspection.agreement->sparse_matched.value));
  return text;
}

Json tails_json(const Tails& tails) {
  Json out = Json::array();
  for (const std::optional<LogitTails>& head : tails) {
    Json entry;
    if (head) {
      Json shares = Json::array();
      for (const TailShare& tail : head->tails)
        shares.push_back({{"deviations", tail.deviations},
                          {"share", tail.share.value},
                          {"low", tail.share.low},
                          {"high", tail.share.high},
                          {"gaussian", tail.gaussian},
                          {"ratio", tail.share.value / tail.gaussian}});
      entry = {{"kolmogorov_distance", head->kolmogorov}, {"tails", shares}};
    }
    out.push_back(entry);
  }
  return out;
}

std::string tails_text(const Tails& tails, Index samples) {
  std::string text = fmt::format(
      "\nlogits of {} pairs of random signs against the Gaussian of the same deviation\n"
      "(sampling alone makes a distance of {:.4f} at most, with probability 0.95; ratios with 95% "
      "intervals):\n"
      "{:>4} {:>9}",
      samples, kolmogorov_noise(samples), "head", "distance");
  for (const int deviations : {1, 2, 3, 4})
    text +=
        fmt::format(" {:>22}", fmt::format("beyond {} deviation{}", deviations, deviations == 1 ? "" : "s"));
  for (std::size_t i = 0; i < tails.size(); ++i) {
    if (!tails[i]) {
      text += fmt::format("\n{:>4} {:>9}", i, "no logits");
      continue;
    }
    text += fmt::format("\n{:>4} {:>9.4f}", i, tails[i]->kolmogorov);
    for (const TailShare& tail : tails[i]->tails)
      text += fmt::format(" {:>22}",
                          fmt::format("{:.3g} ({:.3g} to {:.3g})", tail.share.value / tail.gaussian,
                                      tail.share.low / tail.gaussian, tail.share.high / tail.gaussian));
  }
  return text;
}

}  // namespace headlens::app

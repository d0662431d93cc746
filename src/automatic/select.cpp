#include "automatic/select.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "automatic/blocks.hpp"
#include "automatic/spectrum.hpp"
#include "base/parallel.hpp"

namespace headlens::automatic {
namespace {

constexpr std::size_t kMostMembers = 5;
// Errors of members over that of the best. Few labels hardly tell kernels apart: more may join.
constexpr double kNearlyAsGood = 1.1, kNearlyAsGoodForLabels = 1.25;

// Regression asks for finer differences than a sign does, and for statistics that averages lack. With labels
// the longer list loses more by chance choices than it gains.
std::vector<double> deviations(bool classifier) {
  return classifier ? std::vector<double>{0.5, 1, 3, 10} : std::vector<double>{0.1, 0.5, 1, 3, 10};
}
std::vector<double> bandwidths(bool classifier) {
  return classifier ? std::vector<double>{} : std::vector<double>{0.3, 1, 3};
}
std::vector<double> gammas(bool classifier) {
  return classifier ? std::vector<double>{0, 0.03, 0.1, 0.3, 1, 3}
                    : std::vector<double>{0, 0.01, 0.03, 0.1, 0.3, 1};
}

// Blocks are scaled to a mean squared deviation of one, times their share; a block that is the same for all
// sets has scale 0.
SetBlockInfo scaled(SetBlockInfo block, double share, const TokenFrame& frame, const Tokens& tokens,
                    int threads) {
  const Matrix<double> rows = compute_block(block, frame, tokens, threads);
  const std::vector<double> means = column_means(rows);
  double spread = 0, size = 0;
  for (Index i = 0; i < rows.rows(); ++i)
    for (Index j = 0; j < rows.cols(); ++j) {
      const double centred = rows(i, j) - means[static_cast<std::size_t>(j)];
      spread += centred * centred / static_cast<double>(rows.rows());
      size += rows(i, j) * rows(i, j) / static_cast<double>(rows.rows());
    }
  block.scale = spread > 1e-20 * size ? std::sqrt(share / spread) : 0;
  return block;
}

std::vector<SetBlockInfo> scaled_pools(const TokenFrame& frame, const Tokens& tokens, int threads) {
  constexpr BlockKind kinds[] = {BlockKind::mean, BlockKind::maximum, BlockKind::minimum, BlockKind::second,
                                 BlockKind::size};
  std::vector<SetBlockInfo> out;
  for (const BlockKind kind : kinds) {
    const SetBlockInfo block = scaled({kind, 0, 1}, 1.0 / std::size(kinds), frame, tokens, threads);
    if (block.scale > 0) out.push_back(block);
  }
  return out;
}

std::vector<std::vector<SetBlockInfo>> block_lists(const TokenFrame& frame, const Tokens& tokens,
                                                   bool classifier, int threads) {
  std::vector<SetBlockInfo> single;
  for (const double t : deviations(classifier))
    single.push_back(scaled({BlockKind::attention, t, 1}, 1, frame, tokens, threads));
  for (const double b : bandwidths(classifier))
    single.push_back(scaled({BlockKind::embedding, b, 1}, 1, frame, tokens, threads));
  std::vector<SetBlockInfo> always;
  if (frame.given_query) always.push_back(scaled({BlockKind::query, 0, 1}, 1, frame, tokens, threads));
  const std::vector<SetBlockInfo> pools = scaled_pools(frame, tokens, threads);
  std::vector<std::vector<SetBlockInfo>> lists;
  for (const SetBlockInfo& block : single)
    if (block.scale > 0) lists.push_back({block});
  const std::size_t alone = lists.size();
  if (!pools.empty()) lists.push_back(pools);
  for (std::size_t i = 0; i < alone && !classifier && !pools.empty(); ++i) {
    lists.push_back(lists[i]);
    lists.back().insert(lists.back().end(), pools.begin(), pools.end());
  }
  for (auto& list : lists) list.insert(list.end(), always.begin(), always.end());
  return lists;
}

double median_distance(const Products& products) {
  std::vector<double> distances;
  for (Index i = 0; i < products.inner.rows(); ++i)
    for (Index j = 0; j < i; ++j) {
      const double d = products.left[static_cast<std::size_t>(i)] +
                       products.left[static_cast<std::size_t>(j)] - 2 * products.inner(i, j);
      if (d > 1e-12) distances.push_back(d);
    }
  if (distances.empty()) return 1;
  const auto middle = distances.begin() + static_cast<std::ptrdiff_t>(distances.size() / 2);
  std::nth_element(distances.begin(), middle, distances.end());
  return *middle;
}

Products copy_of(const Products& from) {
  Products out{Matrix<double>(from.inner.rows(), from.inner.cols()), from.left, from.right};
  copy_rows(from.inner, out.inner);
  return out;
}

}  // namespace

std::vector<double> penalties(bool classifier) {
  std::vector<double> out;
  for (double power = classifier ? -4 : -6; power <= 2; power += 0.5) out.push_back(std::pow(10.0, power));
  return out;
}

std::vector<AutomaticMember> screen(const TokenFrame& frame, const Tokens& tokens, MatrixView<const double> y,
                                    bool classifier, int workers, const backend::Context& context) {
  std::vector<AutomaticMember> lists;
  for (auto& blocks : block_lists(frame, tokens, classifier, context.threads)) {
    lists.emplace_back();
    lists.back().blocks = std::move(blocks);
  }
  const std::vector<Products> products = block_products(lists, frame, tokens, tokens, context.threads);
  std::vector<AutomaticMember> trials;
  std::vector<const Products*> source;
  for (std::size_t c = 0; c < lists.size(); ++c) {
    const double median = median_distance(products[c]);
    for (const double gamma : gammas(classifier)) {
      AutomaticMember trial = lists[c];
      trial.relative_gamma = gamma;
      trial.gamma = gamma / median;
      trials.push_back(trial);
      source.push_back(&products[c]);
    }
  }
  const std::vector<double> multiples = penalties(classifier);
  const auto count = static_cast<Index>(trials.size());
  parallel_for(workers, count, [&](Index c, int worker) {
    if (worker == 0)
      context.execution.report("choose kernels", static_cast<double>(c), static_cast<double>(count));
    AutomaticMember& trial = trials[static_cast<std::size_t>(c)];
    const Spectrum spectrum = decompose(kernel_of(trial, copy_of(*source[static_cast<std::size_t>(c)]), 1));
    const LeaveOneOut best = best_penalty(spectrum, y, multiples);
    trial.penalty = best.penalty;
    trial.loo_error = best.error;
  });
  std::stable_sort(trials.begin(), trials.end(),
                   [](const auto& a, const auto& b) { return a.loo_error < b.loo_error; });
  return trials;
}

std::vector<AutomaticMember> committee(const std::vector<AutomaticMember>& trials, bool classifier) {
  std::vector<AutomaticMember> out;
  std::map<bool, std::size_t> of_family;  // whether the description begins with attention
  const double worst = trials.front().loo_error * (classifier ? kNearlyAsGoodForLabels : kNearlyAsGood);
  for (const AutomaticMember& trial : trials) {
    const bool attention = classifier && trial.blocks.front().kind == BlockKind::attention;
    if (trial.loo_error <= worst && of_family[attention]++ < kMostMembers) out.push_back(trial);
  }
  return out;
}

Index most_members(bool classifier) {
  return static_cast<Index>(classifier ? 2 * kMostMembers : kMostMembers);
}

// Every single block, in regression also with the pools, and the pools alone.
Index most_lists(bool classifier) {
  const auto single = static_cast<Index>(deviations(classifier).size() + bandwidths(classifier).size());
  return (classifier ? 1 : 2) * single + 1;
}

}  // namespace headlens::automatic

#include "automatic/select.hpp"

#include <algorithm>
#include <cmath>

#include "automatic/blocks.hpp"
#include "automatic/spectrum.hpp"
#include "automatic/stack.hpp"
#include "base/parallel.hpp"

namespace headlens::automatic {
namespace {

constexpr std::size_t kMostMembers = 5, kMostStacked = 10;
// Errors of members over that of the best. What is stacked finds its weight: more may join.
constexpr double kNearlyAsGood = 1.1, kStackable = 2;

// Regression asks for finer differences than a sign does, and for statistics that averages lack.
std::vector<double> deviations(bool classifier) {
  return classifier ? std::vector<double>{0.5, 1, 3, 10} : std::vector<double>{0.1, 0.5, 1, 3, 10};
}
const std::vector<double> kBandwidths{0.3, 1, 3};  // of embeddings
const std::vector<double> kSharpness{1, 3, 10};    // of attention by the distance to the query
constexpr double kSizedDeviation = 1;              // from here on attention is also tried beside the size
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

// Lists of blocks, each with all that are the same for every set left out.
class BlockLists {
 public:
  BlockLists(const TokenFrame& frame, const Tokens& tokens, int threads)
      : frame_(frame), tokens_(tokens), threads_(threads) {}

  SetBlockInfo block(BlockKind kind, double parameter = 0) const {
    return scaled({kind, parameter, 1}, 1, frame_, tokens_, threads_);
  }
  // The first block is what the list is about: without it there is no list.
  void add(std::vector<SetBlockInfo> blocks) {
    if (blocks.empty() || blocks.front().scale == 0) return;
    std::erase_if(blocks, [](const SetBlockInfo& block) { return block.scale == 0; });
    lists_.push_back(std::move(blocks));
  }
  std::vector<std::vector<SetBlockInfo>> with(const SetBlockInfo& always) && {
    for (auto& list : lists_)
      if (always.scale > 0) list.push_back(always);
    return std::move(lists_);
  }

 private:
  const TokenFrame& frame_;
  const Tokens& tokens_;
  int threads_;
  std::vector<std::vector<SetBlockInfo>> lists_;
};

std::vector<std::vector<SetBlockInfo>> block_lists(const TokenFrame& frame, const Tokens& tokens,
                                                   bool classifier, int threads) {
  BlockLists lists(frame, tokens, threads);
  const SetBlockInfo size = lists.block(BlockKind::size), spread = lists.block(BlockKind::spread);
  for (const double t : deviations(classifier)) {
    const SetBlockInfo attention = lists.block(BlockKind::attention, t);
    lists.add({attention});
    if (!classifier && t >= kSizedDeviation && size.scale > 0) lists.add({attention, size});
  }
  for (const double b : kBandwidths) {
    const SetBlockInfo embedding = lists.block(BlockKind::embedding, b);
    lists.add({embedding});
    if (classifier) continue;
    lists.add({embedding, spread, size});
    if (size.scale > 0) lists.add({lists.block(BlockKind::total, b)});
  }
  lists.add(scaled_pools(frame, tokens, threads));
  if (!classifier) lists.add({lists.block(BlockKind::centre), spread});
  if (!frame.given_query) return std::move(lists).with({BlockKind::query, 0, 0});
  for (const double beta : kSharpness) lists.add({lists.block(BlockKind::nearest, beta)});
  return std::move(lists).with(lists.block(BlockKind::query));
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

std::vector<Trial> screen(const TokenFrame& frame, const Tokens& tokens, MatrixView<const double> y,
                          bool classifier, int workers, const backend::Context& context) {
  std::vector<AutomaticMember> lists;
  for (auto& blocks : block_lists(frame, tokens, classifier, context.threads)) {
    lists.emplace_back();
    lists.back().blocks = std::move(blocks);
  }
  const std::vector<Products> products = block_products(lists, frame, tokens, tokens, context.threads);
  std::vector<Trial> trials;
  std::vector<const Products*> source;
  for (std::size_t c = 0; c < lists.size(); ++c) {
    const double median = median_distance(products[c]);
    for (const double gamma : gammas(classifier)) {
      AutomaticMember trial = lists[c];
      trial.relative_gamma = gamma;
      trial.gamma = gamma / median;
      trials.push_back({std::move(trial), {}});
      source.push_back(&products[c]);
    }
  }
  const std::vector<double> multiples = penalties(classifier);
  const auto count = static_cast<Index>(trials.size());
  parallel_for(workers, count, [&](Index c, int worker) {
    if (worker == 0)
      context.execution.report("choose kernels", static_cast<double>(c), static_cast<double>(count));
    Trial& trial = trials[static_cast<std::size_t>(c)];
    const Spectrum spectrum =
        decompose(kernel_of(trial.member, copy_of(*source[static_cast<std::size_t>(c)]), 1));
    LeaveOneOut best = best_penalty(spectrum, y, multiples);
    trial.member.penalty = best.penalty;
    trial.member.loo_error = best.error;
    trial.predictions = std::move(best.predictions);
  });
  std::stable_sort(trials.begin(), trials.end(),
                   [](const Trial& a, const Trial& b) { return a.member.loo_error < b.member.loo_error; });
  return trials;
}

std::vector<AutomaticMember> committee(const std::vector<Trial>& trials, MatrixView<const double> y,
                                       bool classifier) {
  const double worst = trials.front().member.loo_error * (classifier ? kStackable : kNearlyAsGood);
  std::vector<AutomaticMember> near;
  std::vector<const Matrix<double>*> predictions;
  for (const Trial& trial : trials)
    if (trial.member.loo_error <= worst) {
      near.push_back(trial.member);
      predictions.push_back(&trial.predictions);
    }
  if (!classifier) {
    near.resize(std::min(near.size(), kMostMembers));
    return near;
  }
  const std::vector<double> weights = stacking_weights(predictions, y, kMostStacked);
  std::vector<AutomaticMember> out;
  for (std::size_t c = 0; c < near.size(); ++c)
    if (weights[c] > 0) out.push_back(near[c]);
  return out;
}

std::vector<double> weigh(const std::vector<const Matrix<double>*>& predictions, MatrixView<const double> y,
                          bool classifier) {
  if (classifier) return stacking_weights(predictions, y, predictions.size());
  return std::vector<double>(predictions.size(), 1 / static_cast<double>(predictions.size()));
}

Index most_members(bool classifier) { return static_cast<Index>(classifier ? kMostStacked : kMostMembers); }

// Those of block_lists: attention, embeddings and what is beside them, pools, moments, nearest keys.
Index most_lists(bool classifier) {
  const std::size_t attention = deviations(classifier).size(), embeddings = kBandwidths.size();
  return static_cast<Index>(classifier ? attention + embeddings + 1 + kSharpness.size()
                                       : 2 * attention + 3 * embeddings + 2 + kSharpness.size());
}

}  // namespace headlens::automatic

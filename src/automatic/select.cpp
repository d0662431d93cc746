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

// The blocks that lists are made of, each described once: what is kept of a block is its Gram matrix.
class Blocks {
 public:
  Blocks(const TokenFrame& frame, const Tokens& tokens, int threads)
      : frame_(frame), tokens_(tokens), threads_(threads) {}

  // Scaled to a mean squared deviation of `share`; of scale 0 if the block is the same for all sets.
  SetBlockInfo get(BlockKind kind, double parameter = 0, double share = 1) {
    SetBlockInfo block{kind, parameter, 1};
    Products products = products_of(block, frame_, tokens_, tokens_, threads_);
    const auto n = static_cast<double>(tokens_.count());
    double size = 0, mean = 0;
    for (const double square : products.left) size += square / n;
    for (const double one : column_means(products.inner)) mean += one / n;
    // What is left of a difference of two numbers of this size is rounding.
    block.scale = size - mean > 1e-12 * size ? std::sqrt(share / (size - mean)) : 0;
    if (block.scale > 0) known_.push_back({block, std::move(products)});
    return block;
  }

  Products products_of_list(const std::vector<SetBlockInfo>& list) const {
    const Index n = tokens_.count();
    Products out{Matrix<double>::zeros(n, n), std::vector<double>(static_cast<std::size_t>(n)), {}};
    out.right = out.left;
    for (const SetBlockInfo& block : list)
      for (const Known& one : known_)
        if (one.block.kind == block.kind && one.block.parameter == block.parameter &&
            one.block.scale == block.scale)
          add(out, one.products, block.scale * block.scale, 1);
    return out;
  }

 private:
  struct Known {
    SetBlockInfo block;
    Products products;
  };
  const TokenFrame& frame_;
  const Tokens& tokens_;
  int threads_;
  std::vector<Known> known_;
};

using BlockList = std::vector<SetBlockInfo>;

// The first block is what a list is about: without it there is no list.
void add_list(std::vector<BlockList>& lists, BlockList list) {
  if (list.front().scale == 0) return;
  std::erase_if(list, [](const SetBlockInfo& block) { return block.scale == 0; });
  lists.push_back(std::move(list));
}

BlockList pools(Blocks& blocks) {
  constexpr BlockKind kinds[] = {BlockKind::mean, BlockKind::maximum, BlockKind::minimum, BlockKind::second,
                                 BlockKind::size};
  BlockList out;
  for (const BlockKind kind : kinds) {
    const SetBlockInfo block = blocks.get(kind, 0, 1.0 / std::size(kinds));
    if (block.scale > 0) out.push_back(block);
  }
  return out;
}

void add_regression_lists(Blocks& blocks, std::vector<BlockList>& lists) {
  const SetBlockInfo size = blocks.get(BlockKind::size), spread = blocks.get(BlockKind::spread);
  const std::vector<BlockList> plain = lists;
  for (const BlockList& list : plain) {
    const SetBlockInfo& block = list.front();
    if (block.kind == BlockKind::attention && block.parameter >= kSizedDeviation && size.scale > 0)
      add_list(lists, {block, size});
    if (block.kind == BlockKind::embedding) add_list(lists, {block, spread, size});
    if (block.kind == BlockKind::embedding && size.scale > 0)
      add_list(lists, {blocks.get(BlockKind::total, block.parameter)});
  }
  add_list(lists, {blocks.get(BlockKind::centre), spread});
}

std::vector<BlockList> block_lists(Blocks& blocks, bool given_query, bool classifier) {
  std::vector<BlockList> lists;
  for (const double t : deviations(classifier)) add_list(lists, {blocks.get(BlockKind::attention, t)});
  for (const double b : kBandwidths) add_list(lists, {blocks.get(BlockKind::embedding, b)});
  if (BlockList list = pools(blocks); !list.empty()) lists.push_back(std::move(list));
  if (!classifier) add_regression_lists(blocks, lists);
  if (!given_query) return lists;
  for (const double beta : kSharpness) add_list(lists, {blocks.get(BlockKind::nearest, beta)});
  const SetBlockInfo query = blocks.get(BlockKind::query);
  for (BlockList& list : lists)
    if (query.scale > 0) list.push_back(query);
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

}  // namespace

std::vector<double> penalties(bool classifier) {
  std::vector<double> out;
  for (double power = classifier ? -4 : -9; power <= 2; power += 0.5) out.push_back(std::pow(10.0, power));
  return out;
}

std::vector<Trial> screen(const TokenFrame& frame, const Tokens& tokens, MatrixView<const double> y,
                          bool classifier, int workers, const backend::Context& context) {
  Blocks blocks(frame, tokens, context.threads);
  std::vector<Trial> trials;
  for (const BlockList& list : block_lists(blocks, frame.given_query, classifier)) {
    const double median = median_distance(blocks.products_of_list(list));
    for (const double gamma : gammas(classifier)) {
      trials.emplace_back();
      trials.back().member.blocks = list;
      trials.back().member.relative_gamma = gamma;
      trials.back().member.gamma = gamma / median;
    }
  }
  const std::vector<double> multiples = penalties(classifier);
  const auto count = static_cast<Index>(trials.size());
  parallel_for(workers, count, [&](Index c, int worker) {
    if (worker == 0)
      context.execution.report("choose kernels", static_cast<double>(c), static_cast<double>(count));
    Trial& trial = trials[static_cast<std::size_t>(c)];
    const Spectrum spectrum =
        decompose(kernel_of(trial.member, blocks.products_of_list(trial.member.blocks), 1));
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

// Those of block_lists: attention, embeddings, pools and, of regression, their sums, size, spread and centre;
// nearest keys and the query.
Index most_blocks(bool classifier) {
  const std::size_t embeddings = kBandwidths.size();
  return static_cast<Index>(deviations(classifier).size() + embeddings + 5 + kSharpness.size() + 1 +
                            (classifier ? 0 : embeddings + 3));
}

}  // namespace headlens::automatic

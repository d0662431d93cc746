#include "recover/certificate/distinct.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "base/parallel.hpp"

namespace headlens::recovery {
namespace {

constexpr Index kAsk = 1024;   // examples between two questions whether to stop
constexpr double kPlenty = 3;  // equations per unknown that need no fresh example

// The tokens of one example, sorted: equal for examples that differ in their order only.
std::vector<std::vector<double>> sorted_tokens(MatrixView<const double> x, Index example, Index k) {
  std::vector<std::vector<double>> out;
  for (Index t = 0; t < k; ++t) {
    const double* row = x.row(example * k + t);
    out.emplace_back(row, row + x.cols);
  }
  std::sort(out.begin(), out.end());
  return out;
}

struct Seen {
  std::set<std::vector<std::vector<double>>> examples;
  std::set<std::vector<double>> tokens;
  Index rows = 0;  // distinct tokens in distinct examples
};

// Until `enough` rows have been found.
Seen distinct_examples(const Split& split, double enough) {
  Seen seen;
  const Index examples = split.train_x.rows / split.tokens;
  for (Index example = 0; example < examples && static_cast<double>(seen.rows) < enough; ++example) {
    if (example % kAsk == 0) heed();
    auto tokens = sorted_tokens(split.train_x, example, split.tokens);
    seen.tokens.insert(tokens.begin(), tokens.end());
    Index different = 1;
    for (std::size_t t = 1; t < tokens.size(); ++t) different += tokens[t] != tokens[t - 1];
    if (seen.examples.insert(std::move(tokens)).second) seen.rows += different;
  }
  return seen;
}

}  // namespace

bool held_out_is_fresh(const Split& split, Index heads) {
  const double d = static_cast<double>(split.train_x.cols), e = static_cast<double>(split.train_y.cols);
  const double unknowns = static_cast<double>(heads) * d * (d + e);
  const double enough = kPlenty * unknowns / e;
  const Seen seen = distinct_examples(split, enough);
  if (static_cast<double>(seen.rows) >= enough) return true;
  // Tokens of a small vocabulary: even a new example is made of pieces that were fitted.
  if (2 * static_cast<Index>(seen.tokens.size()) < split.train_x.rows) return false;
  for (Index example = 0; example < split.held_x.rows / split.tokens; ++example)
    if (!seen.examples.contains(sorted_tokens(split.held_x, example, split.tokens))) return true;
  return false;
}

}  // namespace headlens::recovery

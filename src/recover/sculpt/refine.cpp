#include "recover/sculpt/refine.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "linalg/gram.hpp"
#include "linalg/multiply.hpp"
#include "linalg/regularised.hpp"

namespace headlens::recovery::sculpting {
namespace {

constexpr int kSoftRounds = 6, kSharpRounds = 15;
constexpr Index kMostFirst = 64;  // times the final rows: beyond that more rows only cost time

// One head on the accepted rows. Whole examples go in, with the rows that were not accepted weighted 0.
Candidate fit_one_head(const Split& split, const AcceptedRows& accepted, Matrix<double> theta,
                       Effort& effort) {
  const Index k = split.tokens, d = split.train_x.cols, e = split.train_y.cols;
  std::vector<Index> rows = accepted.rows, examples;
  std::sort(rows.begin(), rows.end());
  for (const Index row : rows)
    if (examples.empty() || examples.back() != row / k) examples.push_back(row / k);
  const Index count = static_cast<Index>(examples.size());
  Matrix<double> x(count * k, d), y = Matrix<double>::zeros(count * k, e);
  std::vector<double> weights(static_cast<std::size_t>(count * k), 0.0);
  for (Index i = 0, next = 0; i < count; ++i) {
    const Index from = examples[static_cast<std::size_t>(i)] * k;
    copy_rows(split.train_x.block(from, 0, k, d), x.view().block(i * k, 0, k, d));
    for (; next < static_cast<Index>(rows.size()) && rows[static_cast<std::size_t>(next)] < from + k;
         ++next) {
      const Index row = rows[static_cast<std::size_t>(next)], at = i * k + row - from;
      weights[static_cast<std::size_t>(at)] = 1;
      std::copy_n(split.train_y.row(row), e, y.view().row(at));
    }
  }
  const std::unique_ptr<backend::LayerProblem> problem = effort.context().machine.make_layer_problem(
      {x.view(), y.view(), k, std::move(weights)}, 1, effort.context());
  std::unique_ptr<backend::LayerPoint> point = problem->make_point();
  point->parameters = std::move(theta);
  const LmOptions options{.ridge = 1e-6, .mu = 1e-3, .max_steps = 30, .stall_steps = 5, .stall_factor = 0.99};
  const LmResult result = minimise(
      *problem, point, options, [&] { return effort.must_stop(); },
      [&](int step, double squares) { effort.report("sculpt: refine", step, squares, 1); });
  effort.count(result);
  if (!point->finite) return {std::move(point->parameters), Matrix<double>::zeros(d, e), 1, 1};  // no rows
  return {std::move(point->parameters), std::move(point->w), std::sqrt(result.relative_squares), 1};
}

Matrix<double> as_matrix(const std::vector<double>& theta, Index d) {
  Matrix<double> out(d, d);
  std::copy(theta.begin(), theta.end(), out.data());
  return out;
}

Refinement refine_soft(const Split& split, const Agreement& first, const std::vector<double>& proxy,
                       Effort& effort) {
  Refinement out{{}, {}, "one head"};
  Matrix<double> theta = as_matrix(proxy, split.train_x.cols);
  const double from = static_cast<double>(first_rows(split)), to = static_cast<double>(final_rows(split));
  for (int round = 0; round < kSoftRounds && !(round > 0 && effort.expired()); ++round) {
    const auto count = static_cast<Index>(from * std::pow(to / from, round / (kSoftRounds - 1.0)));
    const AcceptedRows accepted = lowest_scores((round == 0 ? first : out.agreement).score, count);
    Candidate head = fit_one_head(split, accepted, std::move(theta), effort);
    theta = std::move(head.theta);
    out.sum.s = std::move(head.w);
    out.agreement = measure_agreement(split, out.sum.s, effort.threads());
  }
  return out;
}

struct Pick {
  Index row, token;  // the row, and the row of x that the proxy attends to
  double order;      // what the trimming sorts by
};

// The rows of large margin under the proxy: the better half.
std::vector<Pick> large_margins(const Split& split, const Matrix<double>& theta) {
  const Index k = split.tokens, d = split.train_x.cols;
  std::vector<Pick> picks;
  Matrix<double> u(split.train_x.rows, d);
  multiply(Trans::no, Trans::no, 1.0, split.train_x, theta.view(), 0.0, u.view(), 1);
  for (Index row = 0; row < split.train_x.rows; ++row) {
    double best = -INFINITY, second = -INFINITY;
    Index token = 0;
    for (Index b = row / k * k; b < row / k * k + k; ++b) {
      double logit = 0;
      for (Index j = 0; j < d; ++j) logit += u(row, j) * split.train_x(b, j);
      if (logit > best)
        second = best, best = logit, token = b;
      else
        second = std::max(second, logit);
    }
    picks.push_back({row, token, second - best});
  }
  std::stable_sort(picks.begin(), picks.end(),
                   [](const Pick& a, const Pick& b) { return a.order < b.order; });
  picks.resize((picks.size() + 1) / 2);
  return picks;
}

Matrix<double> least_squares_on(const Split& split, const std::vector<Pick>& picks, std::size_t count,
                                int threads) {
  const Index d = split.train_x.cols, e = split.train_y.cols, rows = static_cast<Index>(count);
  Matrix<double> x(rows, d), y(rows, e), gram = Matrix<double>::zeros(d, d), moment(d, e),
                                         s = Matrix<double>::zeros(d, e);
  for (Index i = 0; i < rows; ++i) {
    std::copy_n(split.train_x.row(picks[static_cast<std::size_t>(i)].token), d, x.view().row(i));
    std::copy_n(split.train_y.row(picks[static_cast<std::size_t>(i)].row), e, y.view().row(i));
  }
  add_inner(std::as_const(x).view(), gram, threads);
  multiply(Trans::yes, Trans::no, 1.0, std::as_const(x).view(), y.view(), 0.0, moment.view(), threads);
  (void)solve_regularised(gram, 1e-12 * static_cast<double>(rows), moment, s, threads);
  return s;
}

Refinement refine_sharp(const Split& split, const std::vector<double>& proxy, Effort& effort) {
  const Index d = split.train_x.cols, e = split.train_y.cols;
  std::vector<Pick> picks = large_margins(split, as_matrix(proxy, d));
  const double rows = static_cast<double>(split.train_x.rows);
  Refinement out{{}, {}, "trimmed"};
  for (int round = 0; round < kSharpRounds && !(round > 0 && effort.must_stop()); ++round) {
    const double share = 0.5 * std::pow(0.1, round / (kSharpRounds - 1.0));
    const auto count = std::clamp(static_cast<std::size_t>(share * rows), std::size_t{1}, picks.size());
    out.sum.s = least_squares_on(split, picks, count, effort.threads());
    for (Pick& pick : picks) {
      pick.order = 0;
      for (Index c = 0; c < e; ++c) {
        double left = split.train_y(pick.row, c);
        for (Index j = 0; j < d; ++j) left -= split.train_x(pick.token, j) * out.sum.s(j, c);
        pick.order += left * left;
      }
    }
    std::stable_sort(picks.begin(), picks.end(),
                     [](const Pick& a, const Pick& b) { return a.order < b.order; });
    effort.report("sculpt: refine", round, 1, 1);
  }
  out.agreement = measure_agreement(split, out.sum.s, effort.threads());
  return out;
}

}  // namespace

Index final_rows(const Split& split) {
  const Index d = split.train_x.cols, others = std::max<Index>(1, split.tokens - 1);
  const Index fewest = std::max<Index>(1, 2 * d * d / others);
  return std::clamp(split.train_x.rows / 8, fewest, 4 * fewest);
}

Index first_rows(const Split& split) {
  return std::clamp(split.train_x.rows / 5, final_rows(split), kMostFirst * final_rows(split));
}

Refinement refine_sum(const Split& split, const Agreement& agreement, const std::vector<double>& proxy,
                      Effort& effort) {
  Refinement sharp = refine_sharp(split, proxy, effort), soft = refine_soft(split, agreement, proxy, effort);
  const AcceptedRows of_sharp = lowest_scores(sharp.agreement.score, final_rows(split)),
                     of_soft = lowest_scores(soft.agreement.score, final_rows(split));
  const bool as_many = of_sharp.rows.size() >= of_soft.rows.size();
  return as_many && of_sharp.tolerance < of_soft.tolerance ? std::move(sharp) : std::move(soft);
}

}  // namespace headlens::recovery::sculpting

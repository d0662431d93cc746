#include "recover/candidate.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "attention/attention_map.hpp"
#include "base/parallel.hpp"
#include "base/random.hpp"
#include "linalg/multiply.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::recovery {
namespace {

constexpr std::chrono::milliseconds kGrace{250};  // for loops to end by themselves, with what they have

}  // namespace

namespace {

bool has_labels(const Examples& examples, Index example) {
  const Index k = examples.tokens(), e = examples.outputs();
  const Index rows = examples.lengths.empty() ? k : examples.lengths[static_cast<std::size_t>(example)];
  const double* seen = examples.seen.data<double>() + example * k * e;
  return std::any_of(seen, seen + rows * e, [](double one) { return one != 0; });
}

// These examples of an array whose first axis counts them.
Array chosen_rows(const Array& from, const std::vector<Index>& examples) {
  std::vector<Index> shape = from.shape();
  const Index size = from.size() / shape[0];
  shape[0] = std::ssize(examples);
  Array out(DType::f64, shape);
  double* to = out.data<double>();
  for (const Index example : examples) to = std::copy_n(from.data<double>() + example * size, size, to);
  return out;
}

}  // namespace

Examples with_labels_alone(const Examples& examples) {
  if (examples.seen.size() == 0) return examples;
  std::vector<Index> kept;
  for (Index example = 0; example < examples.count(); ++example)
    if (has_labels(examples, example)) kept.push_back(example);
  if (kept.empty() || std::ssize(kept) == examples.count()) return examples;
  Examples out{
      chosen_rows(examples.x, kept), chosen_rows(examples.y, kept), {}, chosen_rows(examples.seen, kept)};
  if (!examples.lengths.empty())
    for (const Index example : kept)
      out.lengths.push_back(examples.lengths[static_cast<std::size_t>(example)]);
  return out;
}

Split hold_out(const Examples& examples) {
  const Index n = examples.count(), k = examples.tokens(), d = examples.dim(), e = examples.outputs();
  const Index held = n >= 2 ? std::max<Index>(1, n / 8) : 0, train = n - held;
  const double *x = examples.x.data<double>(), *y = examples.y.data<double>();
  Split out{{x, train * k, d},
            {y, train * k, e},
            {x + train * k * d, held * k, d},
            {y + train * k * e, held * k, e},
            k};
  if (examples.seen.size() > 0) {
    const double* seen = examples.seen.data<double>();
    out.train_seen = {seen, train * k, e};
    out.held_seen = {seen + train * k * e, held * k, e};
  }
  if (!examples.lengths.empty()) {
    out.train_lengths.assign(examples.lengths.begin(), examples.lengths.begin() + train);
    out.held_lengths.assign(examples.lengths.begin() + train, examples.lengths.end());
  }
  return out;
}

double Split::labels() const {
  double out = is_partial() ? squared_norm(train_seen) : static_cast<double>(train_y.rows * train_y.cols);
  for (const Index length : train_lengths)  // labels of padding are not said to be missing
    out -= static_cast<double>(train_y.cols * (tokens - length));
  return out;
}

Split Split::first_rows(Index rows) const {
  Split out = *this;
  out.train_x = train_x.block(0, 0, rows, train_x.cols);
  out.train_y = train_y.block(0, 0, rows, train_y.cols);
  if (is_partial()) out.train_seen = train_seen.block(0, 0, rows, train_y.cols);
  if (!train_lengths.empty()) out.train_lengths.resize(static_cast<std::size_t>(rows / tokens));
  return out;
}

void hide_missing(MatrixView<const double> seen, MatrixView<double> left) {
  for (Index i = 0; i < seen.rows; ++i)
    for (Index j = 0; j < seen.cols; ++j) left(i, j) *= seen(i, j);
}

Effort::Effort(const RecoverOptions& options, const Execution& execution, std::uint64_t given_bytes)
    : execution_(execution),
      limited_(execution),
      budget_(execution, free_memory_bytes(), given_bytes),
      example_bytes_(static_cast<double>(given_bytes)),
      context_(backend::context_of(limited_)) {
  if (options.time_limit_seconds)
    deadline_ =
        std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                               std::chrono::duration<double>(*options.time_limit_seconds));
  limited_.cancelled = [this] {
    ended_ = context_.ranks.alone() && is_late(kGrace);
    return ended_ || (execution_.cancelled && execution_.cancelled());
  };
}

void Effort::require_late(const Error& error) const {
  if (error.code() != ErrorCode::interrupted || !ended_) throw;
  execution_.check_cancelled();  // the caller may have asked for an end, too
}

bool Effort::is_late(std::chrono::milliseconds grace) const {
  return deadline_ && std::chrono::steady_clock::now() >= *deadline_ + grace;
}

bool Effort::expired() const {
  using namespace std::chrono_literals;
  if (!deadline_ || context_.ranks.alone()) return is_late(0ms);
  if (!expired_) expired_ = context_.ranks.of_first(is_late(0ms) ? 1 : 0) > 0;
  return expired_;
}

bool Effort::must_stop() const {
  limited_.check_cancelled();
  return expired();
}

void Effort::report(const std::string& phase, int step, double relative_squares, Index heads) const {
  limited_.check_cancelled();
  if (!execution_.progress) return;
  const std::string text = phase + ", " + std::to_string(heads) + " heads, step " + std::to_string(step);
  if (relative_squares < 1)
    execution_.report_error(text, std::sqrt(relative_squares), kProof);
  else
    execution_.report(text, 0, 0);  // a phase without an error of its own
}

double Effort::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
}

void Effort::require_room(double bytes, std::string_view what) const {
  budget_.require(example_bytes_ + bytes, what);
}

void Effort::reserve(double bytes, std::string_view what) {
  require_room(bytes, what);
  reserved_bytes = std::max(reserved_bytes, static_cast<std::uint64_t>(example_bytes_ + bytes));
}

void Effort::count(const LmResult& result) {
  steps += result.steps;
  inner += result.inner;
}

Matrix<double> residual_on(MatrixView<const double> x, MatrixView<const double> y, Index tokens,
                           const Matrix<double>& theta, const Matrix<double>& w, int threads) {
  const Index d = theta.rows(), m = theta.cols() / d;
  Matrix<double> p(x.rows * m, tokens), phi(x.rows, m * d), residual(x.rows, w.cols());
  AttentionMap<double>(x, tokens, m, threads).evaluate(theta, p, phi);
  for (Index i = 0; i < x.rows; ++i) std::copy_n(y.row(i), w.cols(), residual.view().row(i));
  multiply(Trans::no, Trans::no, -1.0, phi.view(), w.view(), 1.0, residual.view(), threads);
  return residual;
}

double held_out_error(const Split& split, const Matrix<double>& theta, const Matrix<double>& w, int threads) {
  const double scale = squared_norm(split.held_y);
  if (scale == 0) return 1;  // nothing held out, or nothing to predict
  return std::sqrt(squared_norm(residual_on(split.held_x, split.held_y, split.tokens, theta, w, threads)) /
                   scale);
}

std::unique_ptr<backend::LayerProblem> pose(const Split& split, Index heads, const Effort& effort) {
  const backend::LayerExamples examples{split.train_x, split.train_y, split.tokens};
  return effort.context().machine.make_layer_problem(examples, heads, effort.context());
}

Candidate solve_from(const Split& split, Matrix<double> theta, const LmOptions& options,
                     const std::string& phase, Effort& effort) {
  const Index heads = theta.cols() / theta.rows();
  const std::unique_ptr<backend::LayerProblem> problem = pose(split, heads, effort);
  std::unique_ptr<backend::LayerPoint> point = problem->make_point();
  point->parameters = std::move(theta);
  const LmResult result = minimise(
      *problem, point, options, [&] { return effort.must_stop(); },
      [&](int step, double squares) {
        effort.trace.push_back({phase, heads, effort.seconds(), std::sqrt(squares), step, {}});
        effort.latest = {copy_of(point->parameters), copy_of(point->w), std::sqrt(squares), 1};
        effort.report(phase, step, squares, heads);
      });
  effort.count(result);
  Candidate out{std::move(point->parameters), std::move(point->w), 1, 1};
  if (!point->finite) {  // tokens of zeros, say: no W can be solved for, and none explains anything
    std::fill_n(out.w.data(), out.w.rows() * out.w.cols(), 0.0);
    return out;
  }
  out.train_error = std::sqrt(result.relative_squares);
  out.held_out_error = held_out_error(split, out.theta, out.w, effort.threads());
  return out;
}

Matrix<double> random_start(Index dim, Index heads, std::uint64_t seed, int start) {
  Matrix<double> theta(dim, heads * dim);
  Stream stream(seed, "start", static_cast<std::uint64_t>(start));
  for (Index i = 0; i < dim * heads * dim; ++i)
    theta.data()[i] = 0.5 / static_cast<double>(dim) * stream.normal();
  return theta;
}

Candidate copy_of(const Candidate& c) {
  Candidate out{Matrix<double>(c.theta.rows(), c.theta.cols()), Matrix<double>(c.w.rows(), c.w.cols()),
                c.train_error, c.held_out_error};
  std::copy_n(c.theta.data(), c.theta.rows() * c.theta.cols(), out.theta.data());
  std::copy_n(c.w.data(), c.w.rows() * c.w.cols(), out.w.data());
  return out;
}

}  // namespace headlens::recovery

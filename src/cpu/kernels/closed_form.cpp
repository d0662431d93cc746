#include "cpu/kernels/closed_form.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/parallel.hpp"
#include "cpu/kernels/moments.hpp"
#include "features/heads.hpp"
#include "headlens/error.hpp"
#include "linalg/blas.hpp"
#include "linalg/tiles.hpp"

namespace headlens::cpu {
namespace {

constexpr Index kRows = 64;  // keys whose products with a tile are held at once

Index padded(Index columns) { return (columns + kColumnBlock - 1) / kColumnBlock * kColumnBlock; }

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

// The probability of a step has infinite slope at +-1, where an ulp of rho would be 1e-9 of it: keys that are
// parallel up to rounding are parallel.
double snapped(double rho) {
  constexpr double kParallel = 1 - 8 * std::numeric_limits<double>::epsilon();
  return std::abs(rho) < kParallel ? rho : std::copysign(1.0, rho);
}

[[noreturn]] void throw_overflow(const Sets& sets, Score score) {
  throw Error(ErrorCode::misuse, message(sets.name(), ": the kernel overflows: scale the tokens down",
                                         score == Score::exp ? message(" or lower ", option("weight-scale"))
                                                             : Text(" (standardise them)")));
}

template <class T>
bool store(MatrixView<const double> tile, MatrixView<T> out) {
  bool finite = true;
  for (Index i = 0; i < tile.rows; ++i)
    for (Index j = 0; j < tile.cols; ++j) {
      out(i, j) = static_cast<T>(tile(i, j));
      finite = finite && std::isfinite(out(i, j));
    }
  return finite;
}

}  // namespace

// A tile with what the formulas need of every key.
struct ClosedFormKernel::Side {
  TokenTile tokens;
  // Of every key: h; for exp, the logarithm of the mean of its exp; the score itself, where it is constant.
  std::vector<double> argument;
  std::vector<double> deviation;  // of every key's score
  std::vector<double> weight;     // of every key
  std::vector<double> factor;     // of every set
  Buffer<double> row_series;      // (keys, kMehlerTerms)
  Buffer<double> column_series;   // (blocks, kMehlerTerms, kColumnBlock)

  Index keys() const { return tokens.keys.rows(); }
};

// What a thread works with, kept from tile to tile.
struct ClosedFormKernel::Workspace {
  Side a, b;
  Index tile_of_a = -1;
  Matrix<double> query_products;  // (sets of a, sets of b)
  Buffer<double> products;        // (kRows, padded columns)
  Buffer<double> query_cosines, sums, ones;

  void resize(Index columns) {
    query_products = Matrix<double>(a.tokens.sets(), b.tokens.sets());
    if (sums.size() < columns) {
      products = Buffer<double>(kRows * columns);
      query_cosines = Buffer<double>(columns);
      sums = Buffer<double>(columns);
      ones = Buffer<double>(columns);
      std::fill_n(products.data(), products.size(), 0.0);
      std::fill_n(ones.data(), columns, 1.0);
    }
    // Padding: products may be left over from another tile, but their correlations are 0.
    std::fill(query_cosines.data() + b.keys(), query_cosines.data() + columns, 0.0);
  }
};

ClosedFormKernel::ClosedFormKernel(const FeatureOptions& options, bool exact, SimdLevel level)
    : options_(options), form_(Form::series), functions_(moment_row_functions(level)) {
  const double bias = largest_mean(options), scale = *options.weight_scale;
  ensure(options.score != Score::softmax, "softmax has no closed form");
  // Beyond this ratio a score is its mean to all digits, and standardising it might overflow.
  if (options.score == Score::exp)
    form_ = Form::exponential;
  else if (scale <= 1e-100 * bias || scale == 0)
    form_ = Form::constant_scores;
  else if (options.score == Score::step)
    form_ = Form::step;
  else if (exact)
    form_ = Form::owen;
  else if (bias == 0)
    form_ = Form::arc_cosine;
}

std::string ClosedFormKernel::method() const {
  constexpr const char* names[] = {"arc-cosine polynomial",
                                   "Mehler series, Owen's T at high correlation",
                                   "Owen's T",
                                   "bivariate normal probability",
                                   "exponential",
                                   "constant scores"};
  return names[static_cast<int>(form_)];
}

void ClosedFormKernel::prepare(TokenTile tokens, Side& side) const {
  const double bias = *options_.bias_scale, scale = *options_.weight_scale;
  const bool standardised = form_ != Form::exponential && form_ != Form::constant_scores;
  // The moment of relu is in units of the deviations.
  const bool scaled = standardised && form_ != Form::step;
  const auto argument = [&](double mean, double deviation) {
    if (standardised) return mean / deviation;
    if (form_ == Form::exponential) return mean + 0.5 * deviation * deviation;
    return options_.score == Score::step ? (mean > 0 ? 1.0 : 0.0) : std::max(mean, 0.0);
  };
  side.tokens = std::move(tokens);
  if (options_.mean) set_means(side.tokens, mean_matrix(options_, side.tokens.queries.cols() - 1));
  const TokenTile& t = side.tokens;
  for (auto* numbers : {&side.argument, &side.deviation, &side.weight, &side.factor}) numbers->clear();
  for (Index s = 0; s < t.sets(); ++s) {
    const Index begin = t.begin[at(s)], end = t.begin[at(s + 1)];
    const double query = t.query_length[at(s)];
    side.factor.push_back((scaled ? scale * query : 1.0) / static_cast<double>(end - begin));
    for (Index i = begin; i < end; ++i) {
      const double length = t.key_length[at(i)], deviation = scale * query * length;
      side.weight.push_back(scaled && options_.kind != ModelKind::mlp ? length * length : length);
      side.deviation.push_back(deviation);
      side.argument.push_back(argument(bias * t.mean[at(i)], deviation));
    }
  }
  if (form_ == Form::series) prepare_series(side);
}

void ClosedFormKernel::prepare_series(Side& side) const {
  const Index keys = side.keys(), columns = padded(keys);
  if (side.row_series.size() < columns * kMehlerTerms) {
    side.row_series = Buffer<double>(columns * kMehlerTerms);
    side.column_series = Buffer<double>(columns * kMehlerTerms);
  }
  std::vector<double> h = side.argument;
  h.resize(at(columns), 0.0);
  for (Index first = 0; first < columns; first += kColumnBlock) {
    double* block = side.column_series.data() + first * kMehlerTerms;
    mehler_coefficients(h.data() + first, block);
    for (Index j = 0; j < kColumnBlock; ++j)
      for (Index t = 0; t < kMehlerTerms; ++t)
        side.row_series[(first + j) * kMehlerTerms + t] = block[t * kColumnBlock + j];
  }
}

template <class Moment>
void ClosedFormKernel::add_scalar_row(const Side& b, const MomentRow& row, Moment&& moment) const {
  for (Index j = 0; j < b.keys(); ++j) {
    const double rho = std::clamp(row.query_cosines[j] * row.cosines[j], -1.0, 1.0);
    row.sums[j] += row.weight * row.factors[j] * moment(j, rho);
  }
}

void ClosedFormKernel::add_row(const Side& a, Index key, const Side& b, const MomentRow& row) const {
  const double h = a.argument[at(key)];
  const std::vector<double>& k = b.argument;
  switch (form_) {
    case Form::arc_cosine:
      return functions_.arc_cosine(row);
    case Form::series:
      if (functions_.mehler(row, a.row_series.data() + key * kMehlerTerms, b.column_series.data(), terms_))
        add_scalar_row(b, row, [&](Index j, double rho) {
          return std::abs(rho) > kMehlerReach ? relu_moment(h, k[at(j)], rho) : 0.0;
        });
      return;
    case Form::owen:
      return add_scalar_row(b, row, [&](Index j, double rho) { return relu_moment(h, k[at(j)], rho); });
    case Form::step:
      return add_scalar_row(b, row,
                            [&](Index j, double rho) { return step_moment(h, k[at(j)], snapped(rho)); });
    case Form::exponential:
      return add_scalar_row(b, row, [&](Index j, double rho) {
        return std::exp(h + k[at(j)] + a.deviation[at(key)] * b.deviation[at(j)] * rho);
      });
    case Form::constant_scores:
      return add_scalar_row(b, row, [&](Index j, double) { return h * k[at(j)]; });
  }
}

Matrix<double> ClosedFormKernel::compute_tile(Workspace& work,
                                              const std::function<void(double)>& report) const {
  const bool mlp = options_.kind == ModelKind::mlp;
  const Side &a = work.a, &b = work.b;
  const Index columns = padded(b.keys()), width = a.tokens.keys.cols();
  work.resize(columns);
  if (!mlp)
    gemm(Trans::no, Trans::yes, 1.0, a.tokens.queries.view(), b.tokens.queries.view(), 0.0,
         work.query_products.view());
  Matrix<double> out(a.tokens.sets(), b.tokens.sets());
  Index set = 0;
  for (Index first = 0; first < a.keys(); first += kRows) {
    heed();  // a set may have a million keys
    report(static_cast<double>(first) / static_cast<double>(a.keys()));
    const Index rows = std::min(kRows, a.keys() - first);
    const MatrixView<double> products(work.products.data(), rows, b.keys(), columns);
    gemm(Trans::no, Trans::yes, 1.0, a.tokens.keys.view().block(first, 0, rows, width), b.tokens.keys.view(),
         0.0, products);
    for (Index i = first; i < first + rows; ++i) {
      if (i == a.tokens.begin[at(set)]) start_set(work, set, columns);
      const double* cosines = products.row(i - first);
      add_row(a, i, b,
              {cosines, work.query_cosines.data(), mlp ? work.ones.data() : cosines, columns, a.weight[at(i)],
               work.sums.data()});
      if (i + 1 == a.tokens.begin[at(set + 1)]) finish_set(work, set++, out);
    }
  }
  return out;
}

// A new set of a: its query against those of b.
void ClosedFormKernel::start_set(Workspace& work, Index set, Index columns) const {
  const TokenTile& b = work.b.tokens;
  std::fill_n(work.sums.data(), columns, 0.0);
  for (Index s = 0; s < b.sets(); ++s)
    std::fill(work.query_cosines.data() + b.begin[at(s)], work.query_cosines.data() + b.begin[at(s + 1)],
              options_.kind == ModelKind::mlp ? 1.0 : work.query_products(set, s));
}

void ClosedFormKernel::finish_set(const Workspace& work, Index set, MatrixView<double> out) const {
  const Side& b = work.b;
  for (Index s = 0; s < b.tokens.sets(); ++s) {
    double sum = 0;
    for (Index j = b.tokens.begin[at(s)]; j < b.tokens.begin[at(s + 1)]; ++j)
      sum += b.weight[at(j)] * work.sums[j];
    out(set, s) = work.a.factor[at(set)] * b.factor[at(s)] * sum;
  }
}

// report(share of the item done), on the calling thread; on others nothing.
static std::function<void(double)> report_on(int worker, const char* phase, Index item, Index items,
                                             const Execution& execution) {
  if (worker != 0) return [](double) {};
  return [=, &execution](double share) {
    execution.report(phase, static_cast<double>(item) + share, static_cast<double>(items));
  };
}

// Items share their tile of a with the one before, more often than not.
Matrix<double> ClosedFormKernel::compute_tile(const TokenSource& a, Tile i, const TokenSource& b, Tile j,
                                              Workspace& work,
                                              const std::function<void(double)>& report) const {
  if (work.tile_of_a != i.begin) prepare(a.tile(i.begin, i.begin + i.size), work.a);
  work.tile_of_a = i.begin;
  prepare(b.tile(j.begin, j.begin + j.size), work.b);
  return compute_tile(work, report);
}

template <class T>
void ClosedFormKernel::compute(const TokenSource& a, Index first, Index last, const TokenSource& b,
                               MatrixView<T> out, const Execution& execution) const {
  ensure(first % a.tile_sets() == 0, "kernel: set ", first, " does not begin a tile of ", a.tile_sets());
  const Index count = last - first, across = tile_count(b.sets().count(), b.tile_sets());
  const int threads = thread_count(execution);
  std::vector<Workspace> workspaces(static_cast<std::size_t>(threads));
  const Index items = tile_count(count, a.tile_sets()) * across;
  parallel_for(threads, items, [&](Index item, int worker) {
    const Tile i = tile_at(count, a.tile_sets(), item / across);
    const Tile j = tile_at(b.sets().count(), b.tile_sets(), item % across);
    const Matrix<double> tile =
        compute_tile(a, {first + i.begin, i.size}, b, j, workspaces[static_cast<std::size_t>(worker)],
                     report_on(worker, "kernel", item, items, execution));
    if (!store<T>(tile, out.block(i.begin, j.begin, i.size, j.size)))
      throw_overflow(a.sets(), options_.score);
  });
}

template <class T>
void ClosedFormKernel::compute_symmetric(const TokenSource& a, MatrixView<T> out,
                                         const Execution& execution) const {
  const Index n = a.sets().count(), items = lower_tile_count(tile_count(n, a.tile_sets()));
  const int threads = thread_count(execution);
  std::vector<Workspace> workspaces(static_cast<std::size_t>(threads));
  parallel_for(threads, items, [&](Index item, int worker) {
    const TilePair pair = lower_tile(item);
    const Tile i = tile_at(n, a.tile_sets(), pair.row), j = tile_at(n, a.tile_sets(), pair.col);
    const Matrix<double> tile = compute_tile(a, i, a, j, workspaces[static_cast<std::size_t>(worker)],
                                             report_on(worker, "kernel", item, items, execution));
    if (!store<T>(tile, out.block(i.begin, j.begin, i.size, j.size)))
      throw_overflow(a.sets(), options_.score);
    for (Index r = 0; r < i.size; ++r)
      for (Index c = 0; c < (pair.row == pair.col ? r : j.size); ++c)
        out(j.begin + c, i.begin + r) = out(i.begin + r, j.begin + c);
  });
}

double ClosedFormKernel::buffer_bytes(const TokenSource& a, const TokenSource& b, int threads) const {
  const double keys_a = static_cast<double>(a.largest_tile_keys()),
               keys_b = static_cast<double>(b.largest_tile_keys());
  const double width = static_cast<double>(a.sets().dim() + 1) *
                       (options_.kind == ModelKind::mlp ? static_cast<double>(a.sets().max_keys() + 1) : 1.0);
  const double series = form_ == Form::series ? 2.0 * kMehlerTerms : 0.0;
  return 8.0 * threads * ((keys_a + keys_b) * (2 * width + series + 8) + (kRows + 3.0) * keys_b);
}

template void ClosedFormKernel::compute(const TokenSource&, Index, Index, const TokenSource&,
                                        MatrixView<float>, const Execution&) const;
template void ClosedFormKernel::compute(const TokenSource&, Index, Index, const TokenSource&,
                                        MatrixView<double>, const Execution&) const;
template void ClosedFormKernel::compute_symmetric(const TokenSource&, MatrixView<float>,
                                                  const Execution&) const;
template void ClosedFormKernel::compute_symmetric(const TokenSource&, MatrixView<double>,
                                                  const Execution&) const;

}  // namespace headlens::cpu

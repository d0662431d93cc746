#include "headlens/tasks.hpp"

#include <cmath>
#include <numbers>

#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "base/random.hpp"
#include "headlens/error.hpp"
#include "headlens/options.hpp"

namespace headlens {
namespace {

using Vector = std::vector<double>;

// A standard normal vector of length zero has probability zero in theory and is redrawn in practice.
void draw_unit(Stream& stream, double* out, Index dim) {
  double square = 0;
  while (square == 0) {
    for (Index j = 0; j < dim; ++j) {
      out[j] = stream.normal();
      square += out[j] * out[j];
    }
  }
  for (Index j = 0; j < dim; ++j) out[j] /= std::sqrt(square);
}

double dot(const double* a, const double* b, Index dim) {
  double sum = 0;
  for (Index j = 0; j < dim; ++j) sum += a[j] * b[j];
  return sum;
}

// E[T^p] for one coordinate T of a uniform unit vector in R^d: 1 * 3 ... (p-1) / (d (d+2) ... (d+p-2)), 0 for
// odd p.
double moment(int p, Index dim) {
  if (p % 2 == 1) return 0;
  double value = 1;
  for (int k = 0; k < p; k += 2) value *= (k + 1.0) / (static_cast<double>(dim) + k);
  return value;
}

// Gram-Schmidt (twice, for rounding) on Gaussian rows is Haar distributed: the diagonal of R is positive.
Vector random_orthogonal(std::uint64_t seed, Index dim) {
  Vector s(static_cast<std::size_t>(dim * dim));
  Stream stream(seed, "task-matrix");
  for (double& x : s) x = stream.normal();
  for (Index i = 0; i < dim; ++i) {
    double* row = s.data() + i * dim;
    for (int pass = 0; pass < 2; ++pass)
      for (Index k = 0; k < i; ++k) {
        const double* other = s.data() + k * dim;
        const double share = dot(row, other, dim);
        for (Index j = 0; j < dim; ++j) row[j] -= share * other[j];
      }
    const double norm = std::sqrt(dot(row, row, dim));
    for (Index j = 0; j < dim; ++j) row[j] /= norm;
  }
  return s;
}

Vector task_matrix(TaskMatrix matrix, std::uint64_t seed, Index dim) {
  if (matrix == TaskMatrix::random) return random_orthogonal(seed, dim);
  Vector s(static_cast<std::size_t>(dim * dim), 0.0);
  const Index by = matrix == TaskMatrix::shift ? 1 : 0;
  for (Index j = 0; j < dim; ++j)
    s[static_cast<std::size_t>((j + by) % dim * dim + j)] = 1;  // (S x)_{j+1} = x_j
  return s;
}

// <x_0, S x_i> is <S^T x_0, x_i>: one product per set.
Vector rotate_query(const Vector& s, const double* query, Index dim) {
  Vector out(static_cast<std::size_t>(dim), 0.0);
  for (Index i = 0; i < dim; ++i)
    for (Index j = 0; j < dim; ++j)
      out[static_cast<std::size_t>(j)] += s[static_cast<std::size_t>(i * dim + j)] * query[i];
  return out;
}

double relu_mean(double s) {  // E[relu(s + g)], g standard normal
  const double density = std::exp(-0.5 * s * s) / std::sqrt(2 * std::numbers::pi);
  return s * 0.5 * std::erfc(-s / std::numbers::sqrt2) + density;
}

class Target {
 public:
  explicit Target(const TaskOptions& options)
      : options_(options),
        beta_(static_cast<std::size_t>(options.dim)),
        matrix_(task_matrix(options.matrix, options.target_seed, options.dim)),
        shift_(task_matrix(TaskMatrix::shift, options.target_seed, options.dim)),
        identity_(task_matrix(TaskMatrix::identity, options.target_seed, options.dim)) {
    Stream stream(options.target_seed, "task-beta");
    draw_unit(stream, beta_.data(), options.dim);
  }

  double operator()(const double* query, const double* keys, Index count) const {
    const double g = options_.weight;
    switch (options_.task) {
      case Task::query_power:
        return std::pow(dot(beta_.data(), query, options_.dim), options_.degree);
      case Task::mixture:
        return (1 - g) * correlation(identity_, query, keys, count) +
               g * correlation(shift_, query, keys, count);
      case Task::correlation:
        return correlation(matrix_, query, keys, count);
      case Task::power_mean:
        return mean(keys, count, [&](const double*, double b) { return std::pow(b, options_.degree); });
      case Task::ordered:
        return ordered(keys, count);
      case Task::native:
        break;
    }
    const Vector rotated = rotate_query(matrix_, query, options_.dim);
    return mean(keys, count, [&](const double* key, double b) {
      return relu_mean(dot(rotated.data(), key, options_.dim)) * b;
    });
  }

 private:
  // (1/N) sum_i term(x_i, <beta, x_i>)
  template <class Term>
  double mean(const double* keys, Index count, const Term& term) const {
    double sum = 0;
    for (Index i = 0; i < count; ++i) {
      const double* key = keys + i * options_.dim;
      sum += term(key, dot(beta_.data(), key, options_.dim));
    }
    return sum / static_cast<double>(count);
  }

  // The keys count from 1 (the first) evenly down to -1 (the last).
  double ordered(const double* keys, Index count) const {
    double sum = 0;
    for (Index i = 0; i < count; ++i) {
      const double weight = static_cast<double>(count - 1 - 2 * i) / static_cast<double>(count - 1);
      sum += weight * std::pow(dot(beta_.data(), keys + i * options_.dim, options_.dim), options_.degree);
    }
    return sum / static_cast<double>(count);
  }

  double correlation(const Vector& s, const double* query, const double* keys, Index count) const {
    const Index dim = options_.dim;
    const int p = options_.degree;
    const Vector rotated = rotate_query(s, query, dim);
    const double value = mean(keys, count, [&](const double* key, double b) {
      return std::pow(dot(rotated.data(), key, dim), p) * b;
    });
    if (!options_.pure) return value;
    // <x_0, S beta> = <S^T x_0, beta>.
    const double query_share = moment(p + 1, dim) * dot(rotated.data(), beta_.data(), dim);
    const double key_share = moment(p, dim) * mean(keys, count, [](const double*, double b) { return b; });
    return value - query_share - key_share;
  }

  TaskOptions options_;
  Vector beta_;
  Vector matrix_, shift_, identity_;
};

std::vector<std::int64_t> draw_offsets(const TaskOptions& options) {
  std::vector<std::int64_t> offsets{0};
  for (Index i = 0; i < options.count; ++i) {
    Stream stream(options.seed, "set-size", static_cast<std::uint64_t>(i));
    const auto spread = static_cast<std::uint64_t>(options.max_keys - options.min_keys + 1);
    offsets.push_back(offsets.back() + options.min_keys + static_cast<Index>(stream.below(spread)));
  }
  return offsets;
}

void store(Array& to, Index at, const double* from, Index size) {
  for (Index j = 0; j < size; ++j) {
    if (to.dtype() == DType::f32)
      to.data<float>()[at + j] = static_cast<float>(from[j]);
    else
      to.data<double>()[at + j] = from[j];
  }
}

}  // namespace

void TaskOptions::validate() const {
  check_ranges(*this);
  require(min_keys >= 1 && max_keys >= min_keys, option("keys"), ": ", min_keys, ":", max_keys,
          " given, expected N or A:B with 1 <= A <= B");
  require(task != Task::ordered || min_keys >= 2, option("keys"), ": ", min_keys,
          " given, expected 2 or more: one key has no order");
  const bool correlates = task == Task::correlation || task == Task::mixture;
  require(!pure || correlates, option("pure"), ": only correlation and mixture have a pure form, not ",
          name(task));
  require(matrix == TaskMatrix::identity || task == Task::correlation || task == Task::native,
          option("matrix"), ": only correlation and native take a matrix, not ", name(task));
}

Array target_matrix(TaskMatrix matrix, Index dim, std::uint64_t target_seed) {
  return Array::from(task_matrix(matrix, target_seed, dim), {dim, dim});
}

LabelledSets generate(const TaskOptions& options, const Execution& execution) {
  const Heed heeding(execution);
  options.validate();
  const bool ragged = options.min_keys != options.max_keys;
  const Index dim = options.dim, n = options.count;
  const double worst_tokens = static_cast<double>(n) * (1.0 + static_cast<double>(options.max_keys));
  const double item = options.precision == Precision::f32 ? 4 : 8;
  MemoryBudget(execution).require(
      worst_tokens * static_cast<double>(dim) * item + 16.0 * static_cast<double>(n),
      join("generating ", n, " sets"));
  const std::vector<std::int64_t> offsets = ragged ? draw_offsets(options) : std::vector<std::int64_t>{};
  const Index total = ragged ? offsets.back() : n * options.min_keys;
  const DType type = options.precision == Precision::f32 ? DType::f32 : DType::f64;
  Array query(type, {n, dim});
  Array keys(type, ragged ? std::vector<Index>{total, dim} : std::vector<Index>{n, options.min_keys, dim});
  std::vector<double> y(static_cast<std::size_t>(n));
  const Target target(options);

  constexpr Index kBlock = 1024;
  const Index blocks = (n + kBlock - 1) / kBlock;
  parallel_for(thread_count(execution), blocks, [&](Index block, int worker) {
    if (worker == 0) execution.report("generate", static_cast<double>(block), static_cast<double>(blocks));
    Vector tokens(static_cast<std::size_t>((1 + options.max_keys) * dim));
    for (Index i = block * kBlock; i < std::min(n, (block + 1) * kBlock); ++i) {
      heed();
      const Index first = ragged ? offsets[static_cast<std::size_t>(i)] : i * options.min_keys;
      const Index count = ragged ? offsets[static_cast<std::size_t>(i) + 1] - first : options.min_keys;
      Stream stream(options.seed, "tokens", static_cast<std::uint64_t>(i));
      for (Index t = 0; t <= count; ++t) draw_unit(stream, tokens.data() + t * dim, dim);
      store(query, i * dim, tokens.data(), dim);
      store(keys, first * dim, tokens.data() + dim, count * dim);
      double& value = y[static_cast<std::size_t>(i)];
      value = target(tokens.data(), tokens.data() + dim, count);
      if (options.noise > 0)
        value += options.noise * Stream(options.seed, "noise", static_cast<std::uint64_t>(i)).normal();
    }
  });
  execution.check_cancelled();
  Sets sets = ragged ? Sets::from_ragged(std::move(query), std::move(keys), offsets)
                     : Sets::from_arrays(std::move(query), std::move(keys));
  return {std::move(sets), {std::move(y), 1, false, {n}}};
}

}  // namespace headlens

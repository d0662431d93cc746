#include "recover/sculpt/net.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "attention/attention_map.hpp"
#include "base/parallel.hpp"
#include "base/random.hpp"
#include "linalg/blas.hpp"
#include "linalg/cholesky.hpp"
#include "linalg/multiply.hpp"
#include "linalg/tiles.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::recovery::sculpting {
namespace {

using Vector = std::vector<double>;
using Tuple = std::vector<Index>;

constexpr double kReach = 12;          // |Theta_i - proxy| at most: logits beyond saturate
constexpr double kFirstPoint = 0.25;   // the innermost points of the grid
constexpr Index kMostRows = 4096;      // of each half: enough to rank tuples
constexpr Index kMostPointsAxis = 24;  // in one dimension
constexpr Index kTileTuples = 64;
constexpr int kHalvings = 14;

// n choose r, or more than kMostTuples where it is.
double choose(Index n, Index r) {
  double out = 1;
  for (Index i = 0; i < r && out > 0; ++i) out *= static_cast<double>(n - i) / static_cast<double>(i + 1);
  return out;
}

// +-kFirstPoint .. +-kReach, geometrically; `count` in all.
Vector axis_points(Index count) {
  Vector out;
  const Index side = count / 2;
  for (Index i = 0; i < side; ++i) {
    const double t = side > 1 ? static_cast<double>(i) / static_cast<double>(side - 1) : 0.5;
    const double at = kFirstPoint * std::pow(kReach / kFirstPoint, t);
    out.push_back(at), out.push_back(-at);
  }
  if (count % 2 == 1) out.push_back(0);
  return out;
}

// Coordinates (points, m-1): the finest product grid whose tuples can all be tried, or else the axes alone.
Matrix<double> make_grid(Index heads) {
  const Index axes = heads - 1;
  if (axes == 0) return Matrix<double>::zeros(1, 0);
  Index per_axis = 1;
  const auto points_of = [&](Index p) { return std::pow(static_cast<double>(p), static_cast<double>(axes)); };
  while (per_axis < kMostPointsAxis && points_of(per_axis + 1) < 1e4 &&
         choose(static_cast<Index>(points_of(per_axis + 1)), heads) <= static_cast<double>(kMostTuples))
    ++per_axis;
  const bool product = per_axis >= 3;
  const Vector axis = axis_points(product ? per_axis : 6);
  const Index count =
      product ? static_cast<Index>(points_of(per_axis)) : axes * static_cast<Index>(axis.size()) + 1;
  Matrix<double> grid = Matrix<double>::zeros(count, axes);
  for (Index p = 0; p < count; ++p) {
    if (product) {
      for (Index j = 0, rest = p; j < axes; ++j, rest /= per_axis)
        grid(p, j) = axis[static_cast<std::size_t>(rest % per_axis)];
    } else if (p > 0) {
      const auto size = static_cast<Index>(axis.size());
      grid(p, (p - 1) / size) = axis[static_cast<std::size_t>((p - 1) % size)];
    }
  }
  return grid;
}

std::vector<Tuple> make_tuples(Index points, Index heads, std::uint64_t seed) {
  std::vector<Tuple> tuples;
  if (choose(points, heads) > static_cast<double>(kMostTuples)) {
    for (Index i = 0; i < kMostTuples; ++i) {
      Stream stream(seed, "net", static_cast<std::uint64_t>(i));
      Tuple tuple;
      while (static_cast<Index>(tuple.size()) < heads) {
        const auto p = static_cast<Index>(stream.below(static_cast<std::uint64_t>(points)));
        if (std::find(tuple.begin(), tuple.end(), p) == tuple.end()) tuple.push_back(p);
      }
      tuples.push_back(tuple);
    }
    return tuples;
  }
  Tuple tuple(static_cast<std::size_t>(heads));
  for (Index i = 0; i < heads; ++i) tuple[static_cast<std::size_t>(i)] = i;
  while (true) {
    tuples.push_back(tuple);
    Index i = heads - 1;
    while (i >= 0 && tuple[static_cast<std::size_t>(i)] == points - heads + i) --i;
    if (i < 0) return tuples;
    ++tuple[static_cast<std::size_t>(i)];
    for (Index j = i + 1; j < heads; ++j)
      tuple[static_cast<std::size_t>(j)] = tuple[static_cast<std::size_t>(j - 1)] + 1;
  }
}

// Phi^T Phi and Phi^T Y of every point against every other, on one part of the examples.
struct Products {
  MatrixView<const double> x, y;
  Matrix<double> gram, moment;
  double y_squares = 0;
};

class Net {
 public:
  Net(const Split& split, const Vector& proxy, const Span& span, Effort& effort)
      : proxy_(proxy),
        span_(span),
        effort_(effort),
        tokens_(split.tokens),
        d_(split.train_x.cols),
        e_(split.train_y.cols) {
    const Index most = kMostRows / tokens_ * tokens_;
    const Index train = std::min(split.train_x.rows, std::max(tokens_, most));
    const Index held = std::min(split.held_x.rows, std::max(tokens_, most));
    train_.x = split.train_x.block(0, 0, train, d_), train_.y = split.train_y.block(0, 0, train, e_);
    held_.x = split.held_x.block(0, 0, held, d_), held_.y = split.held_y.block(0, 0, held, e_);
  }

  // grid: (points, m-1) coordinates in the span.
  Matrix<double> heads_at(const Matrix<double>& grid) const {
    Matrix<double> theta(d_, grid.rows() * d_);
    for (Index p = 0; p < grid.rows(); ++p)
      for (Index i = 0; i < d_ * d_; ++i) {
        double value = proxy_[static_cast<std::size_t>(i)];
        for (Index j = 0; j < grid.cols(); ++j) value += grid(p, j) * span_.directions.vectors(j, i);
        theta(i / d_, p * d_ + i % d_) = value;
      }
    return theta;
  }

  void prepare(const Matrix<double>& grid) {
    const Matrix<double> theta = heads_at(grid);
    for (Products* part : {&train_, &held_}) {
      const Index columns = theta.cols();
      Matrix<double> p(part->x.rows * grid.rows(), tokens_), phi(part->x.rows, columns);
      AttentionMap<double>(part->x, tokens_, grid.rows(), effort_.threads()).evaluate(theta, p, phi);
      part->gram = Matrix<double>(columns, columns), part->moment = Matrix<double>(columns, e_);
      const MatrixView<const double> features = std::as_const(phi).view();
      multiply(Trans::yes, Trans::no, 1.0, features, features, 0.0, part->gram.view(), effort_.threads());
      multiply(Trans::yes, Trans::no, 1.0, features, part->y, 0.0, part->moment.view(), effort_.threads());
      part->y_squares = squared_norm(part->y);
    }
  }

  // Held-out relative squares of this tuple of prepared points.
  double error(const Tuple& tuple) const {
    const Index m = static_cast<Index>(tuple.size());
    Matrix<double> factor(m * d_, m * d_), w(m * d_, e_);
    gather(train_, tuple, factor, w);
    double trace = 0;
    for (Index j = 0; j < m * d_; ++j) trace += factor(j, j);
    for (Index j = 0; j < m * d_; ++j) factor(j, j) += 1e-10 * trace;
    if (!cholesky_tile(factor).ok()) return INFINITY;
    trsm(Side::left, Trans::no, factor.view(), w.view());
    trsm(Side::left, Trans::yes, factor.view(), w.view());
    Matrix<double> gram(m * d_, m * d_), moment(m * d_, e_), image(m * d_, e_);
    gather(held_, tuple, gram, moment);
    gemm(Trans::no, Trans::no, 1.0, std::as_const(gram).view(), std::as_const(w).view(), 0.0, image.view());
    const double squares = held_.y_squares - 2 * inner_product(w, moment) + inner_product(w, image);
    return held_.y_squares > 0 ? std::max(0.0, squares) / held_.y_squares : INFINITY;
  }

 private:
  void gather(const Products& part, const Tuple& tuple, Matrix<double>& gram, Matrix<double>& moment) const {
    for (std::size_t i = 0; i < tuple.size(); ++i) {
      const Index to = static_cast<Index>(i) * d_, from = tuple[i] * d_;
      copy_rows(part.moment.view().block(from, 0, d_, e_), moment.view().block(to, 0, d_, e_));
      for (std::size_t j = 0; j < tuple.size(); ++j)
        copy_rows(part.gram.view().block(from, tuple[j] * d_, d_, d_),
                  gram.view().block(to, static_cast<Index>(j) * d_, d_, d_));
    }
  }

  const Vector& proxy_;
  const Span& span_;
  Effort& effort_;
  Index tokens_, d_, e_;
  Products train_, held_;
};

Tuple whole(Index heads) {
  Tuple out;
  for (Index i = 0; i < heads; ++i) out.push_back(i);
  return out;
}

// Halving steps, one head and one direction at a time. `at` (m, m-1) holds the coordinates of the heads.
double descend(Net& net, Matrix<double>& at, double error, Index& tried, Effort& effort) {
  double relative = 0.5;  // steps are relative to the distance from the proxy, as the grid is
  for (int halving = 0; halving < kHalvings && !effort.expired(); ++halving) {
    effort.report("sculpt: net", halving, error, at.rows());
    bool moved = false;
    for (Index i = 0; i < at.rows(); ++i)
      for (Index j = 0; j < at.cols(); ++j)
        for (const double sign : {1.0, -1.0}) {
          if (effort.expired()) return error;
          const double before = at(i, j);
          at(i, j) += sign * relative * std::max(kFirstPoint, std::abs(before));
          net.prepare(at);
          const double next = net.error(whole(at.rows()));
          ++tried;
          if (next < error)
            error = next, moved = true;
          else
            at(i, j) = before;
        }
    if (!moved) relative /= 2;
  }
  return error;
}

Index shared(const Tuple& a, const Tuple& b) {
  return std::count_if(a.begin(), a.end(),
                       [&](Index p) { return std::find(b.begin(), b.end(), p) != b.end(); });
}

// The tuples of least error that differ, best first; of equal ones the earlier. Tuples with more than half of
// their points in common would end in the same minimum.
std::vector<Tuple> best_tuples(const std::vector<Tuple>& tuples, const Vector& errors, int most) {
  std::vector<std::size_t> order(errors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return errors[a] < errors[b]; });
  std::vector<Tuple> out;
  for (const std::size_t i : order) {
    const bool differs = std::all_of(out.begin(), out.end(), [&](const Tuple& other) {
      return 2 * shared(tuples[i], other) <= static_cast<Index>(other.size());
    });
    if (differs) out.push_back(tuples[i]);
    if (out.size() == static_cast<std::size_t>(most)) break;
  }
  return out;
}

// (m, m-1): the coordinates of a tuple's points.
Matrix<double> coordinates(const Matrix<double>& grid, const Tuple& tuple) {
  Matrix<double> at(static_cast<Index>(tuple.size()), grid.cols());
  for (Index i = 0; i < at.rows(); ++i)
    for (Index j = 0; j < grid.cols(); ++j) at(i, j) = grid(tuple[static_cast<std::size_t>(i)], j);
  return at;
}

}  // namespace

NetResult search_net(const Split& split, const Vector& proxy, const Span& span, const RecoverOptions& options,
                     Effort& effort) {
  Net net(split, proxy, span, effort);
  const Matrix<double> grid = make_grid(span.heads);
  const std::vector<Tuple> tuples = make_tuples(grid.rows(), span.heads, options.seed);
  net.prepare(grid);
  Vector errors(tuples.size(), INFINITY);
  const auto count = static_cast<Index>(tuples.size());
  parallel_for(effort.threads(), tile_count(count, kTileTuples), [&](Index item, int) {
    if (effort.expired() && item > 0) return;  // ranks what was tried; the answer is called stalled
    const Tile tile = tile_at(count, kTileTuples, item);
    for (Index i = tile.begin; i < tile.begin + tile.size; ++i)
      errors[static_cast<std::size_t>(i)] = net.error(tuples[static_cast<std::size_t>(i)]);
  });
  NetResult out;
  out.size = count;
  const std::vector<Tuple> best = best_tuples(tuples, errors, options.starts);
  for (std::size_t i = 1; i < best.size(); ++i)
    out.next_best.push_back(net.heads_at(coordinates(grid, best[i])));
  Matrix<double> at = coordinates(grid, best.front());
  const double least = *std::min_element(errors.begin(), errors.end());
  const double squares = descend(net, at, least, out.size, effort);
  out.held_out_error = std::isfinite(squares) ? std::sqrt(squares) : 1;
  out.theta = net.heads_at(at);
  return out;
}

}  // namespace headlens::recovery::sculpting

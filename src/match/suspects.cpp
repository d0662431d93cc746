#include "match/suspects.hpp"

#include <algorithm>
#include <cmath>

#include "base/parallel.hpp"
#include "linalg/blas.hpp"
#include "linalg/svd.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::matching {
namespace {

enum class Part { queries_or_keys, values, outputs };
constexpr const char* kPartNames[] = {"queries or keys", "values", "outputs"};
constexpr double kNothing = 1e-10;  // of the largest singular value
// Of what chance leaves, the least that a head has to explain to be blamed.
constexpr double kLeastShare = 0.3;
// Of |R|^2, the most that the blamed heads may leave together: heads of another layer always explain
// something.
constexpr double kMostLeft = 0.1;

struct Blame {
  Index head = 0;
  Part part = Part::values;
};

double sum_of_squares(MatrixView<const double> a) {
  double sum = 0;
  for (Index i = 0; i < a.rows; ++i)
    for (Index j = 0; j < a.cols; ++j) sum += a(i, j) * a(i, j);
  return sum;
}

Matrix<double> stacked(const std::vector<MatrixView<const double>>& parts, Index cols) {
  Index rows = 0;
  for (const auto& part : parts) rows += part.rows;
  Matrix<double> out(rows, cols);
  rows = 0;
  for (const auto& part : parts) {
    copy_rows(part, out.view().block(rows, 0, part.rows, cols));
    rows += part.rows;
  }
  return out;
}

// Orthonormal rows that span those of a matrix (n, e).
Matrix<double> row_basis(MatrixView<const double> a) {
  const Svd s = svd(a);
  Index rank = 0;
  while (rank < static_cast<Index>(s.values.size()) &&
         s.values[static_cast<std::size_t>(rank)] > kNothing * s.values.front())
    ++rank;
  Matrix<double> out(rank, a.cols);
  copy_rows(s.right.view().block(0, 0, rank, a.cols), out);
  return out;
}

// rows -= (rows B^T) B
void remove_span(MatrixView<const double> basis, MatrixView<double> rows) {
  if (basis.rows == 0) return;
  Matrix<double> coordinates(rows.rows, basis.rows);
  gemm(Trans::no, Trans::yes, 1.0, rows, basis, 0.0, coordinates);
  gemm(Trans::no, Trans::no, -1.0, coordinates, basis, 1.0, rows);
}

// What every refit needs of every head.
struct HeadParts {
  std::vector<Matrix<double>> centred;  // per example: (x_b - mean) W_h, (length, e)
  Matrix<double> outputs;               // O_h (s, e), or W_h (d, e)
  Matrix<double> features;  // P_h X V_h, or P_h X, of all rows, and a 1 for the bias of the values
};

HeadParts parts_of(const Residual& r, Index h, Index total) {
  const LayerHeads& layer = r.layer;
  const bool factors = !layer.o.empty();
  const Array& last = factors ? layer.o : layer.v;
  HeadParts out;
  out.outputs = Matrix<double>(last.dim(1), last.dim(2));
  copy_rows(
      MatrixView<const double>(last.data<double>() + h * last.dim(1) * last.dim(2), last.dim(1), last.dim(2)),
      out.outputs);
  const Index s = out.outputs.rows();
  out.features = Matrix<double>(total, s + 1);
  for (Index i = 0; i < total; ++i) out.features(i, s) = 1;
  Index first = 0;
  for (const View& view : r.views) {
    const Index n = view.length;
    const MatrixView<const double> x = view.x.block(0, 0, n, view.x.cols);
    Matrix<double> y = Matrix<double>::zeros(n, layer.outputs());
    const Matrix<double> values = values_of(layer, h, x);
    add_output(layer, h, values, y);
    for (Index c = 0; c < y.cols(); ++c) {
      double mean = 0;
      for (Index a = 0; a < n; ++a) mean += y(a, c) / static_cast<double>(n);
      for (Index a = 0; a < n; ++a) y(a, c) -= mean;
    }
    out.centred.push_back(std::move(y));
    const Matrix<double> p = attention_of(layer, h, view);
    gemm(Trans::no, Trans::no, 1.0, p.view().block(0, 0, n, n), factors ? values.view() : x, 0.0,
         out.features.view().block(first, 0, n, s));
    first += n;
  }
  return out;
}

// What a set of refitted heads leaves of R, and what it would leave of a random R: both as shares of |R|^2.
struct Left {
  double share = 1, by_chance = 1;
  double adjusted() const { return by_chance > 1e-9 ? share / by_chance : 1; }
};

Left what_is_left(const Residual& r, const std::vector<HeadParts>& parts, const std::vector<Blame>& blamed) {
  const Index e = r.layer.outputs();
  std::vector<MatrixView<const double>> everywhere, features;
  for (const Blame& b : blamed) {
    const HeadParts& of_head = parts[static_cast<std::size_t>(b.head)];
    if (b.part == Part::values) everywhere.push_back(of_head.outputs);
    if (b.part == Part::outputs) features.push_back(of_head.features);
  }
  double before = 0, total = 0, directions = 0;
  std::vector<Matrix<double>> left;
  for (std::size_t i = 0; i < r.rows.size(); ++i) {
    std::vector<MatrixView<const double>> spans = everywhere;
    for (const Blame& b : blamed)
      if (b.part == Part::queries_or_keys)
        spans.push_back(parts[static_cast<std::size_t>(b.head)].centred[i]);
    Matrix<double> rows = stacked({r.rows[i].view()}, e);
    before += sum_of_squares(rows), total += static_cast<double>(rows.rows());
    if (!spans.empty()) {
      const Matrix<double> basis = row_basis(stacked(spans, e));
      remove_span(basis, rows);
      directions += static_cast<double>(basis.rows() * rows.rows());
    }
    left.push_back(std::move(rows));
  }
  std::vector<MatrixView<const double>> views(left.begin(), left.end());
  Matrix<double> all = stacked(views, e);
  Left out{.share = 0, .by_chance = 1 - directions / total / static_cast<double>(e)};
  if (!features.empty()) {
    std::vector<Matrix<double>> columns;
    for (const auto& f : features) columns.push_back(transposed(f));
    const Matrix<double> basis = row_basis(stacked({columns.begin(), columns.end()}, all.rows()));
    Matrix<double> turned = transposed(all);
    remove_span(basis, turned);
    all = transposed(turned);
    out.by_chance *= 1 - static_cast<double>(basis.rows()) / static_cast<double>(all.rows());
  }
  out.share = before > 0 ? sum_of_squares(all) / before : 0;
  return out;
}

}  // namespace

double share_of_constant(const Residual& r) {
  const Index e = r.layer.outputs();
  std::vector<double> mean(static_cast<std::size_t>(e));
  double count = 0, all = 0, of_mean = 0;
  for (const Matrix<double>& rows : r.rows) {
    for (Index a = 0; a < rows.rows(); ++a)
      for (Index c = 0; c < e; ++c) mean[static_cast<std::size_t>(c)] += rows(a, c);
    count += static_cast<double>(rows.rows()), all += sum_of_squares(rows);
  }
  for (const double sum : mean) of_mean += sum / count * sum;
  return all > 0 ? of_mean / all : 0;
}

std::vector<Damage> find_suspects(const Residual& r) {
  Index total = 0;
  double size = 0;
  for (const Matrix<double>& rows : r.rows) total += rows.rows(), size += sum_of_squares(rows);
  const Index m = r.layer.heads();
  std::vector<HeadParts> parts(static_cast<std::size_t>(m));
  parallel_for(r.threads, m,
               [&](Index h, int) { parts[static_cast<std::size_t>(h)] = parts_of(r, h, total); });
  std::vector<Blame> blamed;
  std::vector<Damage> out;
  Left now;
  while (static_cast<Index>(blamed.size()) < std::max<Index>(1, m / 2)) {
    std::vector<Left> left(static_cast<std::size_t>(3 * m));
    parallel_for(r.threads, 3 * m, [&](Index i, int) {
      const Blame next{i / 3, static_cast<Part>(i % 3)};
      if (std::ranges::any_of(blamed, [&](const Blame& b) { return b.head == next.head; })) return;
      std::vector<Blame> trial = blamed;
      trial.push_back(next);
      left[static_cast<std::size_t>(i)] = what_is_left(r, parts, trial);
    });
    // Queries or keys before values: what they can explain is a part of what values can.
    Index best = 0;
    for (Index i = 0; i < 3 * m; ++i)
      if (left[static_cast<std::size_t>(i)].adjusted() <
          left[static_cast<std::size_t>(best)].adjusted() - 1e-3)
        best = i;
    const Left& chosen = left[static_cast<std::size_t>(best)];
    if (chosen.adjusted() > (1 - kLeastShare) * now.adjusted()) break;
    blamed.push_back({best / 3, static_cast<Part>(best % 3)});
    now = chosen;
    out.push_back(
        {best / 3, kPartNames[best % 3], 1 - now.share, std::sqrt(now.share * size) / r.label_norm});
    if (out.back().error <= r.tolerance) return out;
  }
  if (now.adjusted() > kMostLeft) out.clear();
  return out;
}

}  // namespace headlens::matching

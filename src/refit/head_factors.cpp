#include "refit/head_factors.hpp"

#include <algorithm>
#include <cmath>

#include "headlens/error.hpp"
#include "linalg/blas.hpp"
#include "linalg/svd.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::refitting {
namespace {

Svd checked_svd(MatrixView<const double> a) {
  Svd out = svd(a);
  require(out.ok, "refit: the singular values of a head do not converge: its entries are not finite");
  return out;
}

// Columns of a times the square roots of the values, the first `rank` of them; zeros beyond.
Matrix<double> weighed(MatrixView<const double> a, const std::vector<double>& values, Index rank) {
  Matrix<double> out = Matrix<double>::zeros(a.rows, rank);
  for (Index j = 0; j < std::min(rank, a.cols); ++j)
    for (Index i = 0; i < a.rows; ++i) out(i, j) = a(i, j) * std::sqrt(values[static_cast<std::size_t>(j)]);
  return out;
}

}  // namespace

Matrix<double> beside(const std::vector<MatrixView<const double>>& parts) {
  Index columns = 0;
  for (const auto& part : parts) columns += part.cols;
  Matrix<double> out(parts.front().rows, columns);
  Index at = 0;
  for (const auto& part : parts) {
    copy_rows(part, out.view().block(0, at, part.rows, part.cols));
    at += part.cols;
  }
  return out;
}

Matrix<double> block_diagonal(const std::vector<MatrixView<const double>>& parts) {
  Index rows = 0, columns = 0;
  for (const auto& part : parts) rows += part.rows, columns += part.cols;
  Matrix<double> out = Matrix<double>::zeros(rows, columns);
  Index row = 0, column = 0;
  for (const auto& part : parts) {
    copy_rows(part, out.view().block(row, column, part.rows, part.cols));
    row += part.rows, column += part.cols;
  }
  return out;
}

std::vector<Head> heads_in(const TiedLayer& layer) {
  const TiedShape& s = layer.shape;
  const MatrixView<const double> all = layer.parameters.view(), o = layer.readout.view();
  std::vector<Head> out;
  for (Index i = 0; i < s.heads; ++i)
    out.push_back({copy_of<double>(all.block(0, s.q(i), s.rows, s.rank)),
                   copy_of<double>(all.block(0, s.k(s.group(i)), s.rows, s.rank)),
                   copy_of<double>(all.block(0, s.v(s.group(i)), s.rows, s.value_rank)),
                   copy_of<double>(o.block(i * s.value_rank, 0, s.value_rank, s.outputs))});
  return out;
}

TiedLayer assemble(const std::vector<Head>& heads, Index groups, const TiedLayer& like) {
  TiedLayer out{.shape = like.shape};
  TiedShape& s = out.shape;
  s.heads = static_cast<Index>(heads.size()), s.groups = groups, s.rank = s.value_rank = 0;
  for (const Head& head : heads) {
    s.rank = std::max(s.rank, head.q.cols());
    s.value_rank = std::max(s.value_rank, head.v.cols());
  }
  out.parameters = Matrix<double>::zeros(s.rows, s.columns());
  out.readout = Matrix<double>::zeros(s.features(), s.outputs);
  const auto place = [&](const Matrix<double>& part, MatrixView<double> all, Index row, Index column) {
    copy_rows(part.view(), all.block(row, column, part.rows(), part.cols()));
  };
  for (Index i = 0; i < s.heads; ++i) {
    const Head& head = heads[static_cast<std::size_t>(i)];
    place(head.q, out.parameters, 0, s.q(i));
    place(head.o, out.readout, i * s.value_rank, 0);
    if (i % s.shared() != 0) continue;
    place(head.k, out.parameters, 0, s.k(s.group(i)));
    place(head.v, out.parameters, 0, s.v(s.group(i)));
  }
  if (s.bias)
    copy_rows(like.readout.view().block(like.shape.features() - 1, 0, 1, s.outputs),
              out.readout.view().block(s.features() - 1, 0, 1, s.outputs));
  return out;
}

// A = U_a s_a V_a^T and B = U_b s_b V_b^T: A B^T = U_a (s_a V_a^T V_b s_b) U_b^T, whose middle is small.
Product cut(MatrixView<const double> a, MatrixView<const double> b, Index rank) {
  const Svd left = checked_svd(a), right = checked_svd(b);
  Matrix<double> middle = product(Trans::no, Trans::yes, left.right.view(), right.right.view());
  for (Index i = 0; i < middle.rows(); ++i)
    for (Index j = 0; j < middle.cols(); ++j)
      middle(i, j) *= left.values[static_cast<std::size_t>(i)] * right.values[static_cast<std::size_t>(j)];
  const Svd core = checked_svd(middle.view());
  const Matrix<double> u = product(Trans::no, Trans::no, left.left.view(), core.left.view()),
                       v = product(Trans::no, Trans::yes, right.left.view(), core.right.view());
  return {weighed(u.view(), core.values, rank), weighed(v.view(), core.values, rank)};
}

double product_of(MatrixView<const double> a, MatrixView<const double> b, MatrixView<const double> c,
                  MatrixView<const double> d) {
  const Matrix<double> left = product(Trans::yes, Trans::no, a, c),
                       right = product(Trans::yes, Trans::no, b, d);
  return inner_product(left, right);
}

double theta_product(const Head& a, const Head& b) { return product_of(a.q, a.k, b.q, b.k); }

double w_product(const Head& a, const Head& b) {
  const Matrix<double> left = product(Trans::yes, Trans::no, a.v.view(), b.v.view()),
                       right = product(Trans::no, Trans::yes, a.o.view(), b.o.view());
  return inner_product(left, right);
}

}  // namespace headlens::refitting

#include "cpu/layer/tangent.hpp"

#include <utility>

#include "base/parallel.hpp"
#include "linalg/blas.hpp"
#include "linalg/multiply.hpp"
#include "linalg/tiles.hpp"

namespace headlens::cpu {
namespace {

constexpr Index kTileRows = 256;

template <class T>
void convert(MatrixView<const double> from, MatrixView<T> to) {
  for (Index i = 0; i < from.rows; ++i)
    for (Index j = 0; j < from.cols; ++j) to(i, j) = static_cast<T>(from(i, j));
}

template <class T>
Matrix<T> converted(MatrixView<const double> from) {
  Matrix<T> out(from.rows, from.cols);
  convert(from, out.view());
  return out;
}

}  // namespace

template <class T>
Tangent<T>::Tangent(const VariableProjection& problem)
    : problem_(problem),
      x_(converted<T>(problem.x())),
      map_(std::as_const(x_).view(), problem.tokens(), problem.heads(), problem.threads()),
      p_(problem.rows() * problem.heads(), problem.tokens()),
      values_(problem.rows() * problem.heads(), problem.outputs()),
      values_t_(problem.rows() / problem.tokens() * problem.outputs(), problem.heads() * problem.tokens()),
      q_(problem.rows(), problem.heads() * problem.dim()) {}

template <class T>
void Tangent<T>::move_to(const Point& point) {
  convert<T>(point.p.view(), p_.view());
  convert<T>(point.values.view(), values_t_.view());
  untranspose_values<T>(point.values.view(), problem_.outputs(), values_.view());
  // The inverse of the factor makes Q a plain product, several times faster than solving row by row.
  const Index features = q_.cols();
  Matrix<double> inverse = Matrix<double>::zeros(features, features);
  for (Index j = 0; j < features; ++j) inverse(j, j) = 1;
  trsm(Side::left, Trans::no, point.factor.view(), inverse.view());
  const double flops = 2.0 * static_cast<double>(q_.rows()) * static_cast<double>(features * features);
  parallel_for(threads_for(flops, problem_.threads()), tile_count(q_.rows(), kTileRows),
               [&](Index item, int) {
                 const Tile tile = tile_at(q_.rows(), kTileRows, item);
                 Matrix<double> rows(tile.size, features);
                 gemm(Trans::no, Trans::yes, 1.0, point.phi.view().block(tile.begin, 0, tile.size, features),
                      std::as_const(inverse).view(), 0.0, rows.view());
                 convert<T>(std::as_const(rows).view(), q_.view().block(tile.begin, 0, tile.size, features));
               });
}

template <class T>
void Tangent<T>::derivative(MatrixView<const T> dtheta, MatrixView<T> z) const {
  map_.derivative(p_, values_, dtheta, z);
  problem_.weigh_rows(z);
}

template <class T>
void Tangent<T>::project(MatrixView<T> z) const {
  Matrix<T> c(q_.cols(), z.cols);
  multiply(Trans::yes, Trans::no, T(1), q_.view(), MatrixView<const T>(z), T(0), c.view(),
           problem_.threads());
  multiply(Trans::no, Trans::no, T(-1), q_.view(), std::as_const(c).view(), T(1), z, problem_.threads());
}

template <class T>
void Tangent<T>::adjoint(MatrixView<const T> z, MatrixView<T> dtheta) const {
  map_.adjoint(p_, values_t_, z, dtheta);
}

template <class T>
void Tangent<T>::normal_product(MatrixView<const T> a, MatrixView<T> image, MatrixView<T> out) const {
  derivative(a, image);
  project(image);
  adjoint(image, out);
}

template class Tangent<float>;
template class Tangent<double>;

}  // namespace headlens::cpu

#include "cpu/design/centre_design.hpp"

#include <algorithm>
#include <cmath>

#include "linalg/cholesky.hpp"
#include "linalg/gram.hpp"

namespace headlens::cpu {
namespace {

class CentreFactor final : public backend::Factor {
 public:
  CentreFactor(Matrix<double> covariance, double shift, int threads)
      : factor_(std::move(covariance)), threads_(threads) {
    for (Index i = 0; i < factor_.rows(); ++i) factor_(i, i) += shift;
    ok_ = cholesky(factor_.view(), threads).ok();
  }
  void solve(MatrixView<const double> in, MatrixView<double> out) override {
    copy_rows(in, out);
    if (ok_) cholesky_solve(factor_, out, threads_);  // else none: a shift that is lost in rounding
  }

 private:
  Matrix<double> factor_;
  int threads_;
  bool ok_;
};

}  // namespace

// Falkon (Rudi, Carratino, Rosasco 2017): the covariance of the features, estimated from the centres, whose
// features are the rows l_j of the factor L: (n/m) sum_j (l_j - mean)(l_j - mean)^T + shift, by Cholesky.
std::unique_ptr<backend::Factor> CentreDesign::preconditioner(double shift) {
  const Index m = columns();
  const std::vector<double>& mean = means();
  const double scale = std::sqrt(static_cast<double>(whole().count) / static_cast<double>(m));
  Matrix<double> covariance = Matrix<double>::zeros(m, m);
  constexpr Index kRows = 256;
  Matrix<double> some(kRows, m);
  for (Index first = 0; first < m; first += kRows) {
    const Index size = std::min(kRows, m - first);
    for (Index i = 0; i < size; ++i)
      for (Index j = 0; j < m; ++j)
        some(i, j) = scale * (nystrom().factor()(first + i, j) - mean[static_cast<std::size_t>(j)]);
    add_inner(some.view().block(0, 0, size, m), covariance.view(), threads());
  }
  return std::make_unique<CentreFactor>(std::move(covariance), shift, threads());
}

}  // namespace headlens::cpu

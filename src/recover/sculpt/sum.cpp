#include "recover/sculpt/sum.hpp"

#include <utility>

#include "linalg/gram.hpp"
#include "linalg/multiply.hpp"
#include "linalg/regularised.hpp"

namespace headlens::recovery::sculpting {

ProjectionSum sum_of_projections(const Split& split, int threads) {
  const MatrixView<const double> x = split.train_x, y = split.train_y;
  const Index k = split.tokens, d = x.cols, e = y.cols;
  Matrix<double> inputs = Matrix<double>::zeros(x.rows, 2 * d);  // [x_a, sum of the others]
  for (Index first = 0; first < x.rows; first += k)
    for (Index a = 0; a < k; ++a)
      for (Index j = 0; j < d; ++j) {
        inputs(first + a, j) = x(first + a, j);
        for (Index c = 0; c < k; ++c)
          if (c != a) inputs(first + a, d + j) += x(first + c, j);
      }
  Matrix<double> gram = Matrix<double>::zeros(2 * d, 2 * d), moment(2 * d, e),
                 solution = Matrix<double>::zeros(2 * d, e);
  add_inner(std::as_const(inputs).view(), gram, threads);
  multiply(Trans::yes, Trans::no, 1.0, std::as_const(inputs).view(), y, 0.0, moment.view(), threads);
  double trace = 0;
  for (Index j = 0; j < 2 * d; ++j) trace += gram(j, j);
  // The shift only matters where a coordinate never varies; a failure leaves S = 0, which fits nothing.
  (void)solve_regularised(gram, 1e-12 * trace, moment, solution, threads);
  ProjectionSum sum{Matrix<double>(d, e)};
  const double own = k >= 3 ? 0 : 1, others = static_cast<double>(k >= 3 ? k : k - 1);
  for (Index i = 0; i < d; ++i)
    for (Index c = 0; c < e; ++c) sum.s(i, c) = own * solution(i, c) + others * solution(d + i, c);
  return sum;
}

}  // namespace headlens::recovery::sculpting

#include "distributed/sharded_design.hpp"

#include <algorithm>

namespace headlens::distributed {

Matrix<double> ShardedDesign::forward(MatrixView<const double> v, std::string_view phase) {
  const Matrix<double> mine = local_->forward(v, phase);
  const std::vector<double> all = comm::gather(
      ranks_, std::span<const double>(mine.data(), static_cast<std::size_t>(mine.rows() * mine.cols())));
  Matrix<double> out(rows(), v.cols);
  std::copy(all.begin(), all.end(), out.data());
  return out;
}

Matrix<double> ShardedDesign::inner_product(MatrixView<const double> v, std::string_view phase,
                                            const std::vector<double>& weights) {
  std::vector<double> own;
  if (!weights.empty())
    own.assign(weights.begin() + whole_.first, weights.begin() + whole_.first + local_->rows());
  Matrix<double> out = local_->inner_product(v, phase, own);
  sum(out);
  return out;
}

double ShardedDesign::mean_square_row() {
  double mine = 0;
  ranks_.together([&] { mine = local_->mean_square_row() * static_cast<double>(local_->rows()); });
  return ranks_.sum(mine) / static_cast<double>(rows());
}

backend::Residuals ShardedDesign::check(MatrixView<const double> values, MatrixView<const double> targets) {
  backend::Residuals out = local_->check(values, own_rows(targets));
  out.squares = ranks_.sum(out.squares);
  sum(out.gradient);
  sum(out.product);
  return out;
}

std::unique_ptr<backend::Gram> ShardedDesign::gram(const backend::GramRequest& request) {
  if (request.side == backend::Side::dual) return dual_(request);
  backend::GramRequest own = request;
  if (request.targets.cols > 0) own.targets = own_rows(request.targets);
  return local_->gram(own);
}

}  // namespace headlens::distributed

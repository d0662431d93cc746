// Phi over ranks: each has the rows of its own sets, in a design of its own back end, which need not know of
// the others but for sums (backend/backend.hpp). Vectors of n or p entries are whole on every rank:
//
//   forward    every rank its rows, then gathered     n q numbers exchanged
//   adjoint    every rank its rows, then summed       p q numbers
//   primal     G = sum of the ranks' G                p^2 / 2 numbers, once
//   dual       K = Phi Phi^T in block-cyclic layout   the sets, once, and n^2 log(R) / sqrt(R) per rank in
//   the factor
#pragma once

#include "backend/backend.hpp"

namespace headlens::distributed {

class ShardedDesign final : public backend::Design {
 public:
  // What the Gram matrix of the dual side is made of: the context and the source of the local design.
  using DualGram = std::function<std::unique_ptr<backend::Gram>(const backend::GramRequest&)>;

  ShardedDesign(std::unique_ptr<backend::Design> local, const Sets& sets, DualGram dual,
                const backend::Context& context)
      : local_(std::move(local)), whole_(sets.whole()), dual_(std::move(dual)), ranks_(context.ranks) {}

  Index rows() const override { return whole_.count; }
  Index columns() const override { return local_->columns(); }
  Precision precision() const override { return local_->precision(); }
  const std::vector<double>& means() override { return local_->means(); }
  void hold() override { local_->hold(); }

  Matrix<double> forward(MatrixView<const double> v, std::string_view phase) override;
  Matrix<double> adjoint(MatrixView<const double> r, std::string_view phase) override {
    Matrix<double> out = local_->adjoint(own_rows(r), phase);
    sum(out);
    return out;
  }
  Matrix<double> inner_product(MatrixView<const double> v, std::string_view phase,
                               const std::vector<double>& weights) override;
  double mean_square_row() override;
  backend::Residuals check(MatrixView<const double> values, MatrixView<const double> targets) override;

  std::unique_ptr<backend::Gram> gram(const backend::GramRequest& request) override;
  std::unique_ptr<backend::Factor> preconditioner(double shift) override {
    return local_->preconditioner(shift);
  }

  std::vector<Index> head_of_column() const override { return local_->head_of_column(); }
  Matrix<double> stored(MatrixView<const double> values) const override { return local_->stored(values); }
  std::vector<double> stored_means() override { return local_->stored_means(); }

 private:
  MatrixView<const double> own_rows(MatrixView<const double> all) const {
    return all.block(whole_.first, 0, local_->rows(), all.cols);
  }
  void sum(Matrix<double>& a) { ranks_.sum({a.data(), static_cast<std::size_t>(a.rows() * a.cols())}); }

  std::unique_ptr<backend::Design> local_;
  Whole whole_;
  DualGram dual_;
  comm::Communicator& ranks_;
};

}  // namespace headlens::distributed

#include "distributed/sharded_layer_problem.hpp"

#include <algorithm>
#include <utility>

namespace headlens::distributed {
namespace {

using backend::LayerExamples;
using backend::LayerPoint;

// Of `count` things this rank has [first, last).
struct Part {
  Index first = 0, last = 0;
};
Part part_of(Index count, comm::Communicator& ranks) {
  return {count * ranks.rank() / ranks.size(), count * (ranks.rank() + 1) / ranks.size()};
}

template <class T>
std::vector<T> slice(const std::vector<T>& all, Index first, Index last) {
  if (all.empty()) return {};
  return {all.begin() + first, all.begin() + last};
}

// The rows that this rank has of all.
class Rows {
 public:
  Rows(const LayerExamples& examples, comm::Communicator& ranks) : whole_(examples.x.rows), ranks_(ranks) {
    const Part part = part_of(examples.x.rows / examples.tokens, ranks);
    first_ = part.first * examples.tokens;
    count_ = part.last * examples.tokens - first_;
  }
  Index whole() const { return whole_; }
  Index count() const { return count_; }
  template <class T>
  MatrixView<T> own(MatrixView<T> all) const {
    return all.block(first_, 0, count_, all.cols);
  }
  // own (count, e), in order of the ranks
  void gather(const Matrix<double>& own, MatrixView<double> all) const {
    const std::vector<double> values = comm::gather(
        ranks_, std::span<const double>(own.data(), static_cast<std::size_t>(own.rows() * own.cols())));
    copy_rows(MatrixView<const double>(values.data(), all.rows, all.cols), all);
  }

 private:
  Index whole_, first_ = 0, count_ = 0;
  comm::Communicator& ranks_;
};

Matrix<double> copied(MatrixView<const double> a) {
  Matrix<double> out(a.rows, a.cols);
  copy_rows(a, out.view());
  return out;
}

class ShardedModel final : public backend::LinearModel {
 public:
  ShardedModel(std::unique_ptr<backend::LinearModel> local, const Rows& rows)
      : local_(std::move(local)), rows_(rows) {}

  void move_to(const LayerPoint& point) override { local_->move_to(point); }
  void refresh_preconditioner(const LayerPoint& point) override { local_->refresh_preconditioner(point); }
  void shift_preconditioner(double mu) override { local_->shift_preconditioner(mu); }
  backend::Step solve(const Matrix<double>& gradient, double mu, double tolerance, int cap,
                      Precision precision, const std::function<bool()>& expired) override {
    return local_->solve(gradient, mu, tolerance, cap, precision, expired);
  }
  Matrix<double> precondition(const Matrix<double>& a) const override { return local_->precondition(a); }

  void derivative(MatrixView<const double> dp, MatrixView<double> z) override {
    Matrix<double> own(rows_.count(), z.cols);
    local_->derivative(dp, own.view());
    rows_.gather(own, z);
  }
  void project(MatrixView<double> z) override {
    Matrix<double> own = copied(rows_.own(z));
    local_->project(own.view());
    rows_.gather(own, z);
  }
  void adjoint(MatrixView<const double> z, MatrixView<double> dp) override {
    local_->adjoint(rows_.own(z), dp);
  }
  void normal_product(MatrixView<const double> a, MatrixView<double> out) override {
    local_->normal_product(a, out);
  }
  Matrix<double> best_w(MatrixView<const double> z) override { return local_->best_w(rows_.own(z)); }
  void respond(MatrixView<const double> nu, MatrixView<double> dp) override {
    local_->respond(rows_.own(nu), dp);
  }
  Matrix<double> respond_in_w(MatrixView<const double> nu, MatrixView<const double> dp) override {
    return local_->respond_in_w(rows_.own(nu), dp);
  }

 private:
  std::unique_ptr<backend::LinearModel> local_;
  const Rows& rows_;
};

class ShardedLayerProblem final : public backend::LayerProblem {
 public:
  ShardedLayerProblem(std::unique_ptr<backend::LayerProblem> local, const LayerExamples& examples,
                      comm::Communicator& ranks)
      : local_(std::move(local)), rows_(examples, ranks) {}

  Index rows() const override { return rows_.whole(); }
  Index tokens() const override { return local_->tokens(); }
  Index dim() const override { return local_->dim(); }
  Index heads() const override { return local_->heads(); }
  Index outputs() const override { return local_->outputs(); }
  double y_squares() const override { return local_->y_squares(); }
  double unknowns() const override { return local_->unknowns(); }

  std::unique_ptr<LayerPoint> make_point() const override { return local_->make_point(); }
  void evaluate(Matrix<double> parameters, double ridge, LayerPoint& point) const override {
    local_->evaluate(std::move(parameters), ridge, point);
  }
  void solve_for_w(double ridge, LayerPoint& point) const override { local_->solve_for_w(ridge, point); }
  Matrix<double> residual(const LayerPoint& point) const override {
    Matrix<double> all(rows(), outputs());
    rows_.gather(local_->residual(point), all.view());
    return all;
  }
  void linearise(LayerPoint& point) const override { local_->linearise(point); }
  void gradient(const LayerPoint& point, MatrixView<double> dp) const override {
    local_->gradient(point, dp);
  }
  std::unique_ptr<backend::LinearModel> make_linear_model() const override {
    return std::make_unique<ShardedModel>(local_->make_linear_model(), rows_);
  }

 private:
  std::unique_ptr<backend::LayerProblem> local_;
  Rows rows_;
};

class ShardedDescent final : public backend::FactorDescent {
 public:
  ShardedDescent(std::unique_ptr<backend::FactorDescent> local, comm::Communicator& ranks)
      : local_(std::move(local)), ranks_(ranks) {}

  // Of a batch with fewer examples than ranks every rank takes all: sums and their scale grow alike.
  double step(const std::vector<Index>& batch, double rate) override {
    if (std::ssize(batch) < ranks_.size()) return local_->step(batch, rate);
    const Part part = part_of(std::ssize(batch), ranks_);
    return local_->step(slice(batch, part.first, part.last), rate);
  }
  backend::FactorValues values() const override { return local_->values(); }
  backend::FactorValues mean_values() const override { return local_->mean_values(); }
  void go_to_mean() override { local_->go_to_mean(); }

 private:
  std::unique_ptr<backend::FactorDescent> local_;
  comm::Communicator& ranks_;
};

}  // namespace

bool has_parts(const LayerExamples& examples, comm::Communicator& ranks) {
  return examples.x.rows / examples.tokens >= ranks.size();
}

LayerExamples own_part(const LayerExamples& examples, comm::Communicator& ranks) {
  const Rows rows(examples, ranks);
  const Part part = part_of(examples.x.rows / examples.tokens, ranks);
  LayerExamples out = examples;
  out.x = rows.own(examples.x);
  out.y = rows.own(examples.y);
  if (examples.seen.rows > 0) out.seen = rows.own(examples.seen);
  out.row_weights = slice(examples.row_weights, part.first * examples.tokens, part.last * examples.tokens);
  out.lengths = slice(examples.lengths, part.first, part.last);
  return out;
}

std::unique_ptr<backend::LayerProblem> sharded_problem(std::unique_ptr<backend::LayerProblem> local,
                                                       const LayerExamples& examples,
                                                       comm::Communicator& ranks) {
  return std::make_unique<ShardedLayerProblem>(std::move(local), examples, ranks);
}

std::unique_ptr<backend::FactorDescent> sharded_descent(std::unique_ptr<backend::FactorDescent> local,
                                                        comm::Communicator& ranks) {
  return std::make_unique<ShardedDescent>(std::move(local), ranks);
}

}  // namespace headlens::distributed

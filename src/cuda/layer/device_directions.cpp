#include "cuda/layer/device_directions.hpp"

#include <algorithm>
#include <utility>

#include "cuda/layer/vectors.hpp"

namespace headlens::cuda {
namespace {

struct DeviceDirection final : backend::Direction {
  explicit DeviceDirection(DeviceMatrix<double> v) : values(std::move(v)) {}
  DeviceMatrix<double> values;
};

class DeviceDirections final : public backend::Directions {
 public:
  DeviceDirections(FactorModel& model, int threads, std::optional<Gauge> gauge)
      : model_(model), threads_(threads), gauge_(std::move(gauge)) {}

  Held hold(const Matrix<double>& a) override {
    rows_ = a.rows();
    cols_ = a.cols();
    return std::make_unique<DeviceDirection>(upload<double>(a.view(), threads_));
  }
  Matrix<double> fetch(const backend::Direction& a) override { return download(of(a), threads_); }
  std::vector<double> inner(const Several& a, const backend::Direction& b) override {
    return inner_products(arrays_of(a), of(b).data(), of(b).size());
  }
  void add(const std::vector<double>& factors, const Several& from, backend::Direction& to) override {
    add_scaled(factors, arrays_of(from), of(to).size(), of(to).data());
  }
  void scale(double factor, backend::Direction& a) override {
    cuda::scale(factor, of(a).size(), of(a).data());
  }
  Held zero() override {
    DeviceMatrix<double> out(rows_, cols_);
    out.clear();
    return std::make_unique<DeviceDirection>(std::move(out));
  }
  Held normal_product(const backend::Direction& a) override {
    DeviceMatrix<double> out(rows_, cols_);
    model_.normal_product(of(a), out);
    if (gauge_) gauge_->add(of(a), out);
    return std::make_unique<DeviceDirection>(std::move(out));
  }
  Held precondition(const backend::Direction& a) override {
    DeviceMatrix<double> out(rows_, cols_);
    convert(of(a).data(), of(a).size(), out.data());
    model_.precondition(out);
    return std::make_unique<DeviceDirection>(std::move(out));
  }

 private:
  static const DeviceMatrix<double>& of(const backend::Direction& a) {
    return static_cast<const DeviceDirection&>(a).values;
  }
  static std::vector<const double*> arrays_of(const Several& all) {
    std::vector<const double*> out;
    for (const backend::Direction* one : all) out.push_back(of(*one).data());
    return out;
  }

  FactorModel& model_;
  int threads_;
  std::optional<Gauge> gauge_;
  Index rows_ = 0, cols_ = 0;  // of all that were held
};

std::vector<double> column_squares(const backend::FixedGauge& fixed, Index rank) {
  const Matrix<double>& parameters = fixed.values.parameters;
  std::vector<double> out;
  for (const backend::HeadColumns& c : backend::columns_of(fixed.ranks))
    for (Index j = 0; j < rank; ++j) {
      double squares = 0;
      for (Index q = 0; j < c.logits && q < parameters.rows(); ++q)
        squares += parameters(q, c.q + j) * parameters(q, c.q + j);
      out.push_back(squares);
    }
  return out;
}

}  // namespace

Gauge::Gauge(const backend::FixedGauge& fixed, int threads)
    : columns_(DeviceArray<backend::HeadColumns>::from(backend::columns_of(fixed.ranks))),
      shape_{fixed.values.parameters.rows(), fixed.ranks.heads(), largest_rank(fixed.ranks),
             fixed.ranks.parameter_columns(), columns_.data()},
      factors_(3 * shape_.heads * shape_.dim * shape_.rank),
      sizes_(DeviceArray<double>::from(column_squares(fixed, shape_.rank))),
      curvature_(fixed.curvature) {
  to_blocks(shape_, upload<double>(fixed.values.parameters.view(), threads).data(), factors_.data());
}

// A = (Q^T dQ - dK^T K) / (s_j + s_l), B = V^T dV: the part is (Q A, -K A^T, V B).
void Gauge::add(const DeviceMatrix<double>& a, DeviceMatrix<double>& to) const {
  const Index m = shape_.heads, d = shape_.dim, r = shape_.rank, size = d * r, square = r * r;
  DeviceArray<double> blocks(3 * m * size), along(m * square), other(m * square), minus(m * square);
  to_blocks(shape_, a.data(), blocks.data());
  const auto kind = [&](const DeviceArray<double>& from, Index which) {
    return MatrixView<const double>(from.data() + which * m * size, d, r);
  };
  const auto to_angles = [&](MatrixView<const double> left, MatrixView<const double> right,
                             DeviceArray<double>& out) {
    multiply_each(Trans::yes, Trans::no, left, right, MatrixView<double>(out.data(), r, r), m,
                  {size, size, square});
  };
  const auto from_angles = [&](Index which, Trans trans, const DeviceArray<double>& angles) {
    multiply_each(Trans::no, trans, kind(factors_, which), MatrixView<const double>(angles.data(), r, r),
                  MatrixView<double>(blocks.data() + which * m * size, d, r), m, {size, square, size});
  };
  to_angles(kind(factors_, 0), kind(blocks, 0), along);
  to_angles(kind(blocks, 1), kind(factors_, 1), other);
  divide_gauge(m, r, sizes_.data(), other.data(), along.data(), minus.data());
  to_angles(kind(factors_, 2), kind(blocks, 2), other);
  from_angles(0, Trans::no, along);
  from_angles(1, Trans::yes, minus);
  from_angles(2, Trans::no, other);
  DeviceMatrix<double> part(a.rows(), a.cols());
  from_blocks(shape_, blocks.data(), part.data());
  add_scaled(curvature_, part.data(), part.size(), to.data());
}

std::unique_ptr<backend::Directions> make_device_directions(FactorModel& model, int threads,
                                                            std::optional<Gauge> gauge) {
  return std::make_unique<DeviceDirections>(model, threads, std::move(gauge));
}

}  // namespace headlens::cuda

#include "cuda/design/head_design.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cuda/design/symmetric_kernels.hpp"
#include "cuda/products/block_products.hpp"
#include "features/positions.hpp"
#include "headlens/error.hpp"

namespace headlens::cuda {
namespace {

constexpr double kResidentTokens = 16.0 * 1024 * 1024 * 1024;  // bytes

DeviceArray<double> upload(MatrixView<const double> a) {
  std::vector<double> rows(static_cast<std::size_t>(a.rows * a.cols));
  for (Index i = 0; i < a.rows; ++i) std::copy_n(a.row(i), a.cols, rows.data() + i * a.cols);
  return DeviceArray<double>::from(rows);
}

Matrix<double> download(const DeviceArray<double>& from, Index rows, Index cols) {
  Matrix<double> out(rows, cols);
  from.download(out.data());
  return out;
}

DeviceArray<double> zeros(Index items) {
  DeviceArray<double> out(items);
  out.clear();
  return out;
}

void require_finite_squares(double sum, const Sets& sets) {
  require(std::isfinite(sum), sets.name(),
          ": the squares of the features overflow: scale the tokens down (standardise them)");
}

}  // namespace

Index rows_of_block(Index columns, std::size_t item) {
  constexpr double kBytes = 1 << 30, kMost = 1 << 18;  // most: what a grid of the device counts to
  const double fit = kBytes / (static_cast<double>(columns) * static_cast<double>(item));
  return std::max<Index>(1, static_cast<Index>(std::min(fit, kMost)) / kSumRows) * kSumRows;
}

bool are_resident(const Sets& sets, std::size_t item) { return token_bytes(sets, item) <= kResidentTokens; }

template <class T>
HeadDesign<T>::HeadDesign(std::unique_ptr<FeatureMap<T>> map, const backend::FeatureSource& source,
                          const backend::Context& context)
    : map_(std::move(map)),
      sets_(source.sets),
      centre_(source.centre),
      context_(context),
      position_table_(
          position_table(source.features.positions, source.sets.max_keys() + 1, source.sets.dim())),
      block_rows_(rows_of_block(map_->columns(), sizeof(T))),
      resident_(are_resident(source.sets, sizeof(T))) {
  if (resident_) tokens_ = pack_tokens<T>(sets_, 0, rows(), position_table_, context.threads);
}

// Features of these sets, not centred.
template <class T>
void HeadDesign<T>::compute(Index first, Index count, T* to) {
  if (!resident_) {
    tokens_ = {};
    tokens_ = pack_tokens<T>(sets_, first, first + count, position_table_, context_.threads);
  }
  map_->compute(tokens_, resident_ ? first : 0, count, to);
}

template <class T>
void HeadDesign<T>::for_raw_blocks(std::string_view phase,
                                   const std::function<void(Index, Index, T*)>& visit) {
  const bool into_held = held_.size() > 0;
  if (!into_held && block_.size() == 0) block_ = DeviceArray<T>(std::min(block_rows_, rows()) * columns());
  for (Index first = 0; first < rows(); first += block_rows_) {
    device().wait();  // so that whoever asks to stop need not wait for more than a block
    context_.execution.check_cancelled();
    context_.execution.report(phase, static_cast<double>(first), static_cast<double>(rows()));
    const Index count = std::min(block_rows_, rows() - first);
    T* to = into_held ? held_.data() + first * columns() : block_.data();
    compute(first, count, to);
    visit(first, count, to);
  }
  map_->check_finite(sets_);
}

template <class T>
void HeadDesign<T>::for_blocks(std::string_view phase, const Visit& visit) {
  prepare();
  if (held_.size() == 0)
    return for_raw_blocks(phase, [&](Index first, Index count, T* block) {
      if (centre_) subtract_means(block, count, columns(), device_means_.data(), keep_.data());
      visit(first, count, block);
    });
  for (Index first = 0; first < rows(); first += block_rows_) {
    context_.execution.check_cancelled();
    context_.execution.report(phase, static_cast<double>(first), static_cast<double>(rows()));
    visit(first, std::min(block_rows_, rows() - first), held_.data() + first * columns());
  }
}

template <class T>
void HeadDesign<T>::prepare() {
  if (!means_.empty()) return;
  ColumnSums<T> sums = no_sums<T>(columns());
  for_raw_blocks("means", [&](Index, Index count, T* block) { add_sums(block, count, columns(), sums); });
  device_means_ = DeviceArray<double>(columns());
  keep_ = DeviceArray<double>(columns());
  scale_ = DeviceArray<float>(columns());
  finish_sums(sums, columns(), static_cast<double>(rows()), centre_, device_means_.data(), keep_.data(),
              scale_.data());
  means_ = device_means_.to_host();
}

template <class T>
const std::vector<double>& HeadDesign<T>::means() {
  prepare();
  return means_;
}

template <class T>
void HeadDesign<T>::hold() {
  if (held_.size() > 0) return;
  block_ = {};
  held_ = DeviceArray<T>(rows() * columns());
  means_.clear();
  prepare();
  if (!centre_) return;
  for (Index first = 0; first < rows(); first += block_rows_)
    subtract_means(held_.data() + first * columns(), std::min(block_rows_, rows() - first), columns(),
                   device_means_.data(), keep_.data());
}

template <class T>
Matrix<double> HeadDesign<T>::forward(MatrixView<const double> v, std::string_view phase) {
  const DeviceArray<double> in = upload(v);
  DeviceArray<double> out(rows() * v.cols);
  for_blocks(phase, [&](Index first, Index count, const T* block) {
    multiply_block(block, count, columns(), in.data(), v.cols, out.data() + first * v.cols);
  });
  return download(out, rows(), v.cols);
}

template <class T>
Matrix<double> HeadDesign<T>::adjoint(MatrixView<const double> r, std::string_view phase) {
  const DeviceArray<double> in = upload(r);
  DeviceArray<double> out = zeros(columns() * r.cols);
  for_blocks(phase, [&](Index first, Index count, const T* block) {
    multiply_transposed(block, count, columns(), in.data() + first * r.cols, r.cols, out.data());
  });
  return download(out, columns(), r.cols);
}

template <class T>
Matrix<double> HeadDesign<T>::inner_product(MatrixView<const double> v, std::string_view phase,
                                            const std::vector<double>& weights) {
  const Index q = v.cols;
  const DeviceArray<double> in = upload(v);
  const DeviceArray<double> w = DeviceArray<double>::from(weights);
  DeviceArray<double> out = zeros(columns() * q), inner(std::min(block_rows_, rows()) * q);
  for_blocks(phase, [&](Index first, Index count, const T* block) {
    multiply_block(block, count, columns(), in.data(), q, inner.data());
    if (!weights.empty()) multiply_rows(inner.data(), count, q, w.data() + first);
    multiply_transposed(block, count, columns(), inner.data(), q, out.data());
  });
  return download(out, columns(), q);
}

template <class T>
double HeadDesign<T>::mean_square_row() {
  DeviceArray<double> squares(rows());
  for_blocks("scale", [&](Index first, Index count, const T* block) {
    row_squares(block, count, columns(), squares.data() + first);
  });
  double sum = 0;
  for (const double square : squares.to_host()) sum += square;
  require_finite_squares(sum, sets_);
  return sum / static_cast<double>(rows());
}

template <class T>
backend::Residuals HeadDesign<T>::check(MatrixView<const double> values, MatrixView<const double> targets) {
  const Index q = targets.cols;
  const DeviceArray<double> in = upload(values), y = upload(targets);
  DeviceArray<double> residual(rows() * q), gradient = zeros(columns() * q), product = zeros(columns() * q);
  for_blocks("check", [&](Index first, Index count, const T* block) {
    double* rest = residual.data() + first * q;
    multiply_block(block, count, columns(), in.data(), q, rest);
    subtract(rest, count * q, y.data() + first * q);
    multiply_transposed(block, count, columns(), rest, q, gradient.data());
    multiply_transposed(block, count, columns(), y.data() + first * q, q, product.data());
  });
  double squares = 0;
  for (const double entry : residual.to_host()) squares += entry * entry;
  return {squares, download(gradient, columns(), q), download(product, columns(), q)};
}

template <class T>
Symmetric<double> HeadDesign<T>::exact_gram(bool dual) {
  if (dual) hold();  // sums over all columns need all of them
  const Index size = dual ? rows() : columns();
  DeviceArray<double> entries = zeros(size * size);
  if (dual)
    add_outer(held_.data(), rows(), columns(), entries.data());
  else
    for_blocks("gram", [&](Index, Index count, const T* block) {
      add_inner(block, count, columns(), entries.data());
    });
  return {std::move(entries), size};
}

template <class T>
Symmetric<float> HeadDesign<T>::float_gram(bool dual) {
  if (dual) hold();
  const Index size = dual ? rows() : columns();
  DeviceArray<float> entries(size * size);
  entries.clear();
  if (!dual) {
    for_blocks("gram", [&](Index, Index count, const T* block) {
      add_rounded_inner(block, count, columns(), scale_.data(), entries.data());
    });
    multiply_scales(entries.data(), size, scale_.data());
    return {std::move(entries), size};
  }
  DeviceArray<float> scale(rows());
  row_scales(held_.data(), rows(), columns(), scale.data());
  add_rounded_outer(held_.data(), rows(), columns(), scale.data(), entries.data());
  multiply_scales(entries.data(), size, scale.data());
  return {std::move(entries), size};
}

template <class T>
std::unique_ptr<backend::Gram> HeadDesign<T>::gram(const backend::GramRequest& request) {
  const bool dual = request.side == backend::Side::dual;
  auto equations = std::make_shared<Equations>();
  equations->side = request.side;
  equations->intercept = request.intercept;
  equations->targets = request.targets;
  equations->epsilon = std::numeric_limits<T>::epsilon();
  equations->design = this;
  if (request.precision == Precision::f32) equations->left_out = request.left_out;
  prepare();
  if (!dual && request.targets.cols > 0) equations->product = adjoint(request.targets, "gram");
  if (request.precision == Precision::f32)
    return std::make_unique<DeviceGram<float>>(float_gram(dual), std::move(equations), context_);
  Symmetric<double> matrix = exact_gram(dual);
  require_finite_squares(matrix.trace(), sets_);
  return std::make_unique<DeviceGram<double>>(std::move(matrix), std::move(equations), context_);
}

template <class T>
template <class To>
void HeadDesign<T>::gather_into(const std::vector<Index>& examples, To* to) {
  const auto numbers = DeviceArray<std::int64_t>::from({examples.begin(), examples.end()});
  for_blocks("ridge path", [&](Index first, Index count, const T* block) {
    const auto begin = std::lower_bound(examples.begin(), examples.end(), first) - examples.begin();
    const auto end = std::lower_bound(examples.begin(), examples.end(), first + count) - examples.begin();
    gather_rows(block, columns(), numbers.data() + begin, end - begin, first, to + begin * columns());
  });
}

std::unique_ptr<backend::Design> make_head_design(const backend::FeatureSource& source, const Array& heads,
                                                  const backend::Context& context) {
  const auto make = [&]<class T>(std::unique_ptr<FeatureMap<T>> map) -> std::unique_ptr<backend::Design> {
    return std::make_unique<HeadDesign<T>>(std::move(map), source, context);
  };
  const FeatureOptions& features = source.features;
  const Index dim = source.sets.dim(), keys = source.keys();
  return features.precision == Precision::f32 ? make(make_head_map<float>(features, dim, keys, heads))
                                              : make(make_head_map<double>(features, dim, keys, heads));
}

}  // namespace headlens::cuda

#include "cuda/features/feature_map.hpp"

#include <algorithm>

#include "cuda/features/rfa_tiles.hpp"
#include "features/heads.hpp"
#include "headlens/error.hpp"

namespace headlens::cuda {
namespace {

constexpr Index kLanes = 8;  // heads are padded to whole ones: rows of 16 bytes and more

Index padded(Index heads) { return (heads + kLanes - 1) / kLanes * kLanes; }

// Sets that a product of cuBLAS takes at a time. Always as many, so that its bits are the same for each.
Index product_sets(Index row_items, std::size_t item) {
  constexpr double kBytes = 1 << 28;
  const double fit = kBytes / (static_cast<double>(row_items) * static_cast<double>(item));
  return std::clamp<Index>(static_cast<Index>(fit), 1, 1024);
}

// Row-major c (rows, columns) = a (rows, inner) b, b (inner, columns) or, transposed, (columns, inner).
void product(Index rows, Index columns, Index inner, const float* a, const float* b, bool transposed,
             float* c) {
  const float one = 1, zero = 0;
  check(cublasSgemm_64(device().blas, transposed ? CUBLAS_OP_T : CUBLAS_OP_N, CUBLAS_OP_N, columns, rows,
                       inner, &one, b, transposed ? inner : columns, a, inner, &zero, c, columns));
}
void product(Index rows, Index columns, Index inner, const double* a, const double* b, bool transposed,
             double* c) {
  const double one = 1, zero = 0;
  check(cublasDgemm_64(device().blas, transposed ? CUBLAS_OP_T : CUBLAS_OP_N, CUBLAS_OP_N, columns, rows,
                       inner, &one, b, transposed ? inner : columns, a, inner, &zero, c, columns));
}

template <class T>
std::vector<T> in_type(const Array& a) {
  std::vector<T> out(static_cast<std::size_t>(a.size()));
  for (Index i = 0; i < a.size(); ++i) out[static_cast<std::size_t>(i)] = static_cast<T>(a.at(i));
  return out;
}

template <class T>
void copy(const T* from, Index items, T* to) {
  check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(items) * sizeof(T), cudaMemcpyDeviceToDevice,
                        device().stream));
}

class OverflowFlag {
 public:
  OverflowFlag() : flag_(1) { flag_.clear(); }
  int* data() { return flag_.data(); }
  bool is_set() const { return flag_.to_host()[0] != 0; }

 private:
  DeviceArray<int> flag_;
};

template <class T>
class AttentionMap final : public FeatureMap<T> {
 public:
  AttentionMap(const FeatureOptions& options, Index dim, const Array& heads)
      : score_(options.score), width_(dim + 1) {
    heads_.count = heads.dim(0);
    heads_.stride = padded(heads_.count);
    const std::vector<T> given = in_type<T>(heads);  // (M, D, D)
    std::vector<T> packed(static_cast<std::size_t>(width_ * width_ * heads_.stride), T(0));
    for (Index m = 0; m < heads_.count; ++m)
      for (Index e = 0; e < width_ * width_; ++e)
        packed[static_cast<std::size_t>(e * heads_.stride + m)] =
            given[static_cast<std::size_t>(m * width_ * width_ + e)];
    heads_.weights = DeviceArray<T>::from(packed);
  }

  Index columns() const override { return width_ * heads_.stride; }
  Index heads() const override { return heads_.count; }
  Index width() const override { return width_; }
  Index column_of(Index head, Index j) const override { return j * heads_.stride + head; }

  void compute(const Tokens<T>& tokens, Index first, Index count, T* out) override {
    if constexpr (sizeof(T) == sizeof(float))
      if (suits_tiles(width_, tokens.max_keys))
        return tile_attention(tokens, first, count, heads_, score_, out, overflow_.data());
    if (is_small<T>(width_, tokens.max_keys))
      return small_attention(tokens, first, count, heads_, score_, out, overflow_.data());
    const Index step = product_sets(columns(), sizeof(T));
    if (queries_.size() == 0) {
      queries_ = DeviceArray<T>(step * width_);
      projected_ = DeviceArray<T>(step * columns());
      queries_.clear();
    }
    for (Index s = 0; s < count; s += step) {
      const Index sets = std::min(step, count - s);
      gather_queries(tokens, first + s, sets, queries_.data());
      product(step, columns(), width_, queries_.data(), heads_.weights.data(), false, projected_.data());
      any_attention(tokens, first + s, sets, projected_.data(), heads_, score_, out + s * columns(),
                    overflow_.data());
    }
  }

  void check_finite(const Sets& sets) override {
    if (!overflow_.is_set()) return;
    throw Error(ErrorCode::misuse, message(sets.name(), ": the features overflow: scale the tokens down",
                                           score_ == Score::exp ? message(", lower ", option("weight-scale"),
                                                                          ", or use the softmax score")
                                                                : Text(" (standardise them)")));
  }

 private:
  Score score_;
  Index width_;
  Heads<T> heads_;
  DeviceArray<T> queries_, projected_;
  OverflowFlag overflow_;
};

template <class T>
class MlpMap final : public FeatureMap<T> {
 public:
  MlpMap(Index dim, Index keys, const Array& neurons)
      : inputs_((keys + 1) * (dim + 1)), neurons_(neurons.dim(0)), stride_(padded(neurons_)) {
    std::vector<T> packed = in_type<T>(neurons);
    packed.resize(static_cast<std::size_t>(stride_ * inputs_), T(0));
    weights_ = DeviceArray<T>::from(packed);
  }

  Index columns() const override { return stride_; }
  Index heads() const override { return neurons_; }
  Index width() const override { return 1; }
  Index column_of(Index head, Index) const override { return head; }

  void compute(const Tokens<T>& tokens, Index first, Index count, T* out) override {
    ensure(tokens.rows.size() == tokens.count * inputs_, "mlp: sets of another size");
    const T* rows = tokens.rows.data() + first * inputs_;
    for (Index s = 0; s < count; s += kTile) {
      if (count - s >= kTile) {
        multiply(rows + s * inputs_, out + s * stride_);
        continue;
      }
      if (rest_in_.size() == 0) {
        rest_in_ = DeviceArray<T>(kTile * inputs_);
        rest_out_ = DeviceArray<T>(kTile * stride_);
        rest_in_.clear();
      }
      copy(rows + s * inputs_, (count - s) * inputs_, rest_in_.data());
      multiply(rest_in_.data(), rest_out_.data());
      copy(rest_out_.data(), (count - s) * stride_, out + s * stride_);
    }
    rectify(out, count, stride_, neurons_, overflow_.data());
  }

  void check_finite(const Sets& sets) override {
    require(!overflow_.is_set(), sets.name(), ": the features overflow: scale the tokens down");
  }

 private:
  static constexpr Index kTile = 256;

  void multiply(const T* in, T* out) { product(kTile, stride_, inputs_, in, weights_.data(), true, out); }

  Index inputs_, neurons_, stride_;
  DeviceArray<T> weights_;  // (stride, (N + 1) D)
  DeviceArray<T> rest_in_, rest_out_;
  OverflowFlag overflow_;
};

}  // namespace

template <class T>
std::unique_ptr<FeatureMap<T>> make_head_map(const FeatureOptions& options, Index dim, Index keys,
                                             const Array& heads) {
  if (options.kind == ModelKind::mlp) return std::make_unique<MlpMap<T>>(dim, keys, heads);
  return std::make_unique<AttentionMap<T>>(options, dim, heads);
}

Index head_columns(const FeatureOptions& options, Index dim) {
  return padded(options.heads) * (options.kind == ModelKind::mlp ? 1 : dim + 1);
}

double head_map_bytes(const FeatureOptions& options, Index dim, Index keys) {
  const double item = options.precision == Precision::f32 ? 4 : 8;
  const auto columns = static_cast<double>(head_columns(options, dim));
  const double inputs = static_cast<double>(dim + 1) * static_cast<double>(keys + 1);
  if (options.kind == ModelKind::mlp) return item * (columns * inputs + 256 * (columns + inputs));
  const double sets = static_cast<double>(product_sets(head_columns(options, dim), sizeof(double)));
  return item * (columns * static_cast<double>(dim + 1) + sets * (columns + static_cast<double>(dim + 1)));
}

template class FeatureMap<float>;
template class FeatureMap<double>;
template std::unique_ptr<FeatureMap<float>> make_head_map(const FeatureOptions&, Index, Index, const Array&);
template std::unique_ptr<FeatureMap<double>> make_head_map(const FeatureOptions&, Index, Index, const Array&);

}  // namespace headlens::cuda

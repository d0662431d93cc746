#include "cpu/kernels/products.hpp"

#include <algorithm>

#include "cpu/features/feature_map.hpp"
#include "cpu/kernels/closed_form.hpp"
#include "linalg/gram.hpp"
#include "linalg/multiply.hpp"

namespace headlens::cpu {
namespace {

class HostKernel final : public backend::ClosedKernel {
 public:
  HostKernel(const Sets& a, const Sets* b, const FeatureOptions& f, bool exact,
             const backend::Context& context)
      : kernel_(f, exact),
        left_(a, f.kind, f.positions, f.precision),
        right_(b ? *b : a, f.kind, f.positions, f.precision),
        symmetric_(b == nullptr),
        context_(context) {}

  std::string method() const override { return kernel_.method(); }
  double buffer_bytes() const override { return kernel_.buffer_bytes(left_, right_, context_.threads); }
  void compute(Array& out) const override {
    out.dtype() == DType::f32 ? fill(out.data<float>()) : fill(out.data<double>());
  }

 private:
  template <class T>
  void fill(T* data) const {
    const Index rows = left_.sets().count(), cols = right_.sets().count();
    const MatrixView<T> out(data, rows, cols);
    if (symmetric_)
      kernel_.compute_symmetric(left_, out, context_.execution);
    else
      kernel_.compute(left_, 0, rows, right_, out, context_.execution);
  }

  ClosedFormKernel kernel_;
  TokenSource left_, right_;
  bool symmetric_;
  backend::Context context_;
};

class HostHeadProducts final : public backend::HeadProducts {
 public:
  HostHeadProducts(const Sets& a, const Sets* b, std::unique_ptr<const FeatureMap<double>> map, int threads)
      : a_(a), b_(b), map_(std::move(map)), threads_(threads) {
    const Index rows = a.count(), cols = b ? b->count() : rows;
    const double items = static_cast<double>((b ? rows + cols : rows) * map_->block_columns());
    chunk_ = std::max<Index>(1, static_cast<Index>(kHeldFeatures / items));
    sum_ = Matrix<double>(rows, cols);
  }

  Index blocks() const override { return map_->blocks(); }
  Index block_heads() const override { return map_->block_columns() / map_->width(); }
  MatrixView<const double> sum(Index first, Index last) override {
    std::fill_n(sum_.data(), sum_.rows() * sum_.cols(), 0.0);
    for (Index block = first; block < last; block += chunk_) {
      const Index end = std::min(last, block + chunk_);
      const Matrix<double> left = features(a_, block, end);
      if (b_)
        headlens::multiply(Trans::no, Trans::yes, 1.0, left, features(*b_, block, end), 1.0, sum_, threads_);
      else
        add_outer(left.view(), sum_, threads_);
    }
    return sum_.view();
  }

 private:
  Matrix<double> features(const Sets& sets, Index first, Index last) const {
    Matrix<double> out(sets.count(), (last - first) * map_->block_columns());
    map_->compute(sets, 0, sets.count(), first, last, out, threads_);
    return out;
  }

  const Sets& a_;
  const Sets* b_;
  std::unique_ptr<const FeatureMap<double>> map_;
  int threads_;
  Index chunk_;
  Matrix<double> sum_;
};

}  // namespace

std::unique_ptr<backend::ClosedKernel> make_kernel(const Sets& a, const Sets* b,
                                                   const FeatureOptions& features, bool exact,
                                                   const backend::Context& context) {
  return std::make_unique<HostKernel>(a, b, features, exact, context);
}

std::unique_ptr<backend::HeadProducts> make_head_products(const Sets& a, const Sets* b,
                                                          const FeatureOptions& features, const Array& heads,
                                                          const backend::Context& context) {
  const Index keys = features.kind == ModelKind::mlp ? a.keys_of(0) : 0;
  return std::make_unique<HostHeadProducts>(a, b, FeatureMap<double>::make(features, a.dim(), keys, heads),
                                            context.threads);
}

}  // namespace headlens::cpu

#include "backend/backend.hpp"

#include "base/memory.hpp"
#include "headlens/error.hpp"
#include "linalg/vector_space.hpp"

namespace headlens::backend {
namespace {

[[noreturn]] void throw_missing(const Backend& machine, std::string_view what) {
  throw Error(ErrorCode::environment,
              message(option("backend"), ": ", machine.name(), " has no ", what, ": ask for cpu"));
}

}  // namespace

std::unique_ptr<Design> Backend::make_design(const FeatureSource&, const Array&, const Context&) {
  throw_missing(*this, "features of heads");
}
std::unique_ptr<Design> Backend::make_centre_design(const FeatureSource&, const Sets&, const Context&) {
  throw_missing(*this, "features of centres");
}
KernelGram Backend::make_kernel_gram(const FeatureSource&, MatrixView<const double>, const Context&) {
  throw_missing(*this, "kernel matrices");
}
double Backend::columns(const FeatureOptions&, Index, Index) const {
  throw_missing(*this, "features of heads");
}
double Backend::bytes(const Route&, const Shape&, int) const { throw_missing(*this, "fits"); }
std::uint64_t Backend::free_bytes() const { return free_memory_bytes(); }
int Backend::device_number() const { throw_missing(*this, "device"); }
std::shared_ptr<const DeviceMemory> Backend::borrow(std::shared_ptr<void>, std::size_t) const {
  throw_missing(*this, "memory of a device");
}
std::unique_ptr<Scorer> Backend::make_scorer(const Model&, Index) { throw_missing(*this, "prediction"); }
Array Backend::features(const Model&, const Sets&, const Context&) { throw_missing(*this, "features"); }
std::unique_ptr<ClosedKernel> Backend::make_kernel(const Sets&, const Sets*, const FeatureOptions&, bool,
                                                   const Context&) {
  throw_missing(*this, "kernels");
}
std::unique_ptr<HeadProducts> Backend::make_head_products(const Sets&, const Sets*, const FeatureOptions&,
                                                          const Array&, const Context&) {
  throw_missing(*this, "products of features");
}
std::unique_ptr<LayerProblem> Backend::make_layer_problem(const LayerExamples&, Index, const Context&) {
  throw_missing(*this, "recoveries");
}
std::unique_ptr<LayerProblem> Backend::make_variant_problem(const LayerExamples&, const VariantShape&,
                                                            const Context&) {
  throw_missing(*this,
                "recoveries among all entries of Theta with masks, biases, positions or missing labels");
}
std::unique_ptr<LayerProblem> Backend::make_tied_problem(const LayerExamples&, const TiedShape&,
                                                         const Context&) {
  throw_missing(*this, "refits");
}
std::unique_ptr<LayerProblem> Backend::make_factor_problem(const LayerExamples&, const HeadRanks&,
                                                           const Context&) {
  throw_missing(*this, "recoveries in factors");
}
std::unique_ptr<FactorDescent> Backend::make_factor_descent(const LayerExamples&, const HeadRanks&,
                                                            const FactorValues&, const Context&) {
  throw_missing(*this, "recoveries in factors");
}
Matrix<double> Backend::apply_factors(const LayerExamples&, const HeadRanks&, const FactorValues&,
                                      const Context&) {
  throw_missing(*this, "layers in factors");
}
double Backend::factor_squares(const LayerExamples& examples, const HeadRanks& ranks,
                               const FactorValues& values, const Context& context) {
  const MatrixView<const double> y = examples.y;
  Matrix<double> left = apply_factors(examples, ranks, values, context);
  for (Index i = 0; i < y.rows; ++i)
    for (Index j = 0; j < y.cols; ++j)
      left(i, j) =
          examples.seen.rows > 0 ? examples.seen(i, j) * (left(i, j) - y(i, j)) : left(i, j) - y(i, j);
  return squared_norm(left);
}

}  // namespace headlens::backend

// The back end that is always there.
#include "backend/backend.hpp"
#include "cpu/design/centre_design.hpp"
#include "cpu/design/design_matrix.hpp"
#include "cpu/design/kernel_gram.hpp"
#include "cpu/kernels/products.hpp"
#include "cpu/layer/factor_descent.hpp"
#include "cpu/layer/factor_problem.hpp"
#include "cpu/layer/tied_problem.hpp"
#include "cpu/layer/variable_projection.hpp"
#include "cpu/layer/variant_problem.hpp"
#include "cpu/memory.hpp"
#include "cpu/scorers/model_features.hpp"
#include "cpu/scorers/scorers.hpp"

namespace headlens::cpu {
namespace {

using backend::Context;
using backend::FeatureSource;

template <class T>
std::unique_ptr<backend::Design> design_of(const FeatureSource& source, const Array& heads,
                                           const Context& context) {
  return std::make_unique<DesignMatrix<T>>(
      FeatureMap<T>::make(source.features, source.sets.dim(), source.keys(), heads), source, context);
}

class Processor final : public backend::Backend {
 public:
  std::string_view name() const override { return "cpu"; }

  bool recovers_from_a_part() const override { return true; }
  std::unique_ptr<backend::LayerProblem> make_layer_problem(const backend::LayerExamples& examples,
                                                            Index heads,
                                                            const backend::Context& context) override {
    return std::make_unique<VariableProjection>(examples.x, examples.y, examples.tokens, heads,
                                                context.threads, examples.row_weights, context.ranks);
  }
  std::unique_ptr<backend::LayerProblem> make_variant_problem(const backend::LayerExamples& examples,
                                                              const VariantShape& shape,
                                                              const backend::Context& context) override {
    return std::make_unique<VariantProblem>(examples, shape, context.threads);
  }
  std::unique_ptr<backend::LayerProblem> make_tied_problem(const backend::LayerExamples& examples,
                                                           const TiedShape& shape,
                                                           const backend::Context& context) override {
    return std::make_unique<TiedProblem>(examples, shape, context.threads);
  }
  std::unique_ptr<backend::LayerProblem> make_factor_problem(const backend::LayerExamples& examples,
                                                             const backend::HeadRanks& ranks,
                                                             const backend::Context& context) override {
    return std::make_unique<FactorProblem>(examples, ranks, context.threads, context.ranks);
  }
  std::unique_ptr<backend::FactorDescent> make_factor_descent(const backend::LayerExamples& examples,
                                                              const backend::HeadRanks& ranks,
                                                              const backend::FactorValues& start,
                                                              const backend::Context& context) override {
    return std::make_unique<AdamDescent>(examples, ranks, start, context.threads, context.ranks);
  }
  Matrix<double> apply_factors(const backend::LayerExamples& examples, const backend::HeadRanks& ranks,
                               const backend::FactorValues& values,
                               const backend::Context& context) override {
    return cpu::apply_factors(examples, ranks, values, context.threads);
  }
  std::unique_ptr<backend::Design> make_design(const FeatureSource& source, const Array& heads,
                                               const Context& context) override {
    return source.features.precision == Precision::f32 ? design_of<float>(source, heads, context)
                                                       : design_of<double>(source, heads, context);
  }
  std::unique_ptr<backend::Design> make_centre_design(const FeatureSource& source, const Sets& centres,
                                                      const Context& context) override {
    FeatureSource blocks{source};
    if (source.block_sets == 0)
      blocks.block_sets = kRowTile;  // rows of kernels are dear, and few columns wide
    return std::make_unique<CentreDesign>(
        std::make_unique<NystromMap>(source.features, centres, context.execution), blocks, context);
  }
  backend::KernelGram make_kernel_gram(const FeatureSource& source, MatrixView<const double> targets,
                                       const Context& context) override {
    return cpu::make_kernel_gram(source, targets, context);
  }
  double columns(const FeatureOptions& features, Index dim, Index keys) const override {
    return design_columns(features, dim, keys);
  }
  double bytes(const backend::Route& route, const backend::Shape& shape, int threads) const override {
    return route_bytes(route, shape, threads);
  }
  std::unique_ptr<backend::Scorer> make_scorer(const Model& model, Index max_keys) override {
    return model.features.infinite() ? make_kernel_scorer(model, max_keys)
                                     : make_head_scorer(model, max_keys);
  }
  Array features(const Model& model, const Sets& sets, const Context& context) override {
    return model_features(model, sets, context);
  }
  std::unique_ptr<backend::ClosedKernel> make_kernel(const Sets& a, const Sets* b,
                                                     const FeatureOptions& features, bool exact,
                                                     const Context& context) override {
    return cpu::make_kernel(a, b, features, exact, context);
  }
  std::unique_ptr<backend::HeadProducts> make_head_products(const Sets& a, const Sets* b,
                                                            const FeatureOptions& features,
                                                            const Array& heads,
                                                            const Context& context) override {
    return cpu::make_head_products(a, b, features, heads, context);
  }
};

}  // namespace

backend::Backend& processor() {
  static Processor instance;
  return instance;
}

}  // namespace headlens::cpu

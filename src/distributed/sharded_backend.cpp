#include "distributed/sharded_backend.hpp"

#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "distributed/block_cyclic_gram.hpp"
#include "distributed/dual_matrix.hpp"
#include "distributed/sharded_design.hpp"
#include "distributed/sharded_layer_problem.hpp"
#include "headlens/error.hpp"

namespace headlens::distributed {
namespace {

using backend::Context;
using backend::FeatureSource;
using backend::Method;
using backend::Side;

class ShardedBackend final : public backend::Backend {
 public:
  ShardedBackend(backend::Backend& own, comm::Communicator& ranks)
      : own_(own), ranks_(ranks), name_(join(own.name(), " on ", ranks.size(), " ranks")) {}

  std::string_view name() const override { return name_; }

  std::unique_ptr<backend::Design> make_design(const FeatureSource& source, const Array& heads,
                                               const Context& context) override {
    const auto dual = [this, source, &heads, context](const backend::GramRequest& request) {
      CyclicMatrix matrix = head_matrix(source, heads, own_, context);
      return gram_of(std::move(matrix), source, request.targets, request.intercept, context);
    };
    return std::make_unique<ShardedDesign>(own_.make_design(source, heads, context), source.sets, dual,
                                           context);
  }

  std::unique_ptr<backend::Design> make_centre_design(const FeatureSource& source, const Sets& centres,
                                                      const Context& context) override {
    const auto dual = [](const backend::GramRequest&) -> std::unique_ptr<backend::Gram> {
      throw Error(ErrorCode::misuse,
                  message(option("centres"), ": as many as sets, on several ranks: give fewer"));
    };
    return std::make_unique<ShardedDesign>(own_.make_centre_design(source, centres, context), source.sets,
                                           dual, context);
  }

  backend::KernelGram make_kernel_gram(const FeatureSource& source, MatrixView<const double> targets,
                                       const Context& context) override {
    CyclicMatrix matrix = kernel_matrix(source, own_, context);
    backend::KernelGram out{nullptr, std::vector<double>(static_cast<std::size_t>(matrix.n), 0.0)};
    if (source.centre) out.means = centre(matrix, context.ranks);
    out.gram = finished(std::move(matrix), source, targets, source.centre, context);
    return out;
  }

  bool has_few_digits(Side side) const override { return side == Side::primal && own_.has_few_digits(side); }
  double columns(const FeatureOptions& features, Index dim, Index keys) const override {
    return own_.columns(features, dim, keys);
  }
  double bytes(const backend::Route& route, const backend::Shape& shape, int threads) const override;

  std::unique_ptr<backend::Scorer> make_scorer(const Model& model, Index max_keys) override {
    return own_.make_scorer(model, max_keys);
  }
  Array features(const Model& model, const Sets& sets, const Context& context) override {
    return own_.features(model, sets, context);
  }
  std::unique_ptr<backend::ClosedKernel> make_kernel(const Sets& a, const Sets* b,
                                                     const FeatureOptions& features, bool exact,
                                                     const Context& context) override {
    return own_.make_kernel(a, b, features, exact, context);
  }
  std::unique_ptr<backend::HeadProducts> make_head_products(const Sets& a, const Sets* b,
                                                            const FeatureOptions& features,
                                                            const Array& heads,
                                                            const Context& context) override {
    return own_.make_head_products(a, b, features, heads, context);
  }
  bool recovers_all_entries() const override { return own_.recovers_all_entries(); }
  bool recovers_from_a_part() const override { return own_.recovers_from_a_part(); }
  std::unique_ptr<backend::LayerProblem> make_layer_problem(const backend::LayerExamples& examples,
                                                            Index heads, const Context& context) override {
    return over_ranks(examples, context, [&](const backend::LayerExamples& part, const Context& own) {
      return own_.make_layer_problem(part, heads, own);
    });
  }
  // Layers of a variant, and smaller layers, are not worth the traffic: every rank has all examples.
  std::unique_ptr<backend::LayerProblem> make_variant_problem(const backend::LayerExamples& examples,
                                                              const VariantShape& shape,
                                                              const Context& context) override {
    return own_.make_variant_problem(examples, shape, alone(context));
  }
  std::unique_ptr<backend::LayerProblem> make_tied_problem(const backend::LayerExamples& examples,
                                                           const TiedShape& shape,
                                                           const Context& context) override {
    return own_.make_tied_problem(examples, shape, alone(context));
  }
  std::unique_ptr<backend::LayerProblem> make_factor_problem(const backend::LayerExamples& examples,
                                                             const backend::HeadRanks& head_ranks,
                                                             const Context& context) override {
    return over_ranks(examples, context, [&](const backend::LayerExamples& part, const Context& own) {
      return own_.make_factor_problem(part, head_ranks, own);
    });
  }
  std::unique_ptr<backend::FactorDescent> make_factor_descent(const backend::LayerExamples& examples,
                                                              const backend::HeadRanks& head_ranks,
                                                              const backend::FactorValues& start,
                                                              const Context& context) override {
    return sharded_descent(own_.make_factor_descent(examples, head_ranks, start, context), ranks_);
  }
  Matrix<double> apply_factors(const backend::LayerExamples& examples, const backend::HeadRanks& ranks,
                               const backend::FactorValues& values, const Context& context) override {
    return own_.apply_factors(examples, ranks, values, alone(context));
  }
  double factor_squares(const backend::LayerExamples& examples, const backend::HeadRanks& head_ranks,
                        const backend::FactorValues& values, const Context& context) override {
    if (!has_parts(examples, ranks_))
      return own_.factor_squares(examples, head_ranks, values, alone(context));
    return ranks_.sum(own_.factor_squares(own_part(examples, ranks_), head_ranks, values, alone(context)));
  }

 private:
  Context alone(const Context& context) const { return {own_, context.threads, context.execution}; }
  template <class Make>
  std::unique_ptr<backend::LayerProblem> over_ranks(const backend::LayerExamples& examples,
                                                    const Context& context, const Make& make) const {
    if (!has_parts(examples, ranks_)) return make(examples, alone(context));
    return sharded_problem(
        make(own_part(examples, ranks_), {own_, context.threads, context.execution, ranks_}), examples,
        ranks_);
  }

  std::unique_ptr<backend::Gram> gram_of(CyclicMatrix matrix, const FeatureSource& source,
                                         MatrixView<const double> targets, bool intercept,
                                         const Context& context) const {
    if (source.centre) centre(matrix, context.ranks);
    return finished(std::move(matrix), source, targets, intercept, context);
  }
  static std::unique_ptr<backend::Gram> finished(CyclicMatrix matrix, const FeatureSource& source,
                                                 MatrixView<const double> targets, bool intercept,
                                                 const Context& context) {
    const double epsilon = source.features.precision == Precision::f32 && !source.features.infinite()
                               ? std::numeric_limits<float>::epsilon()
                               : std::numeric_limits<double>::epsilon();
    auto gram = std::make_unique<BlockCyclicGram>(std::move(matrix), targets, intercept, epsilon, context);
    require(std::isfinite(gram->trace()), source.sets.name(),
            ": the squares of the features overflow: scale the tokens down (standardise them)");
    return gram;
  }

  backend::Backend& own_;
  comm::Communicator& ranks_;
  std::string name_;
};

// The rank with the most. Of the dual side: the block-cyclic matrices, the sets of its rows and columns three
// times (to send, as they come, and picked), and what ScaLAPACK works in; a kernel model, which rank 0
// writes, keeps all sets. Of all else: what the rank's own back end takes for its own sets.
double ShardedBackend::bytes(const backend::Route& route, const backend::Shape& shape, int threads) const {
  const bool kernel = shape.features.infinite() && shape.centres == 0;
  const bool direct = route.method == Method::cholesky || route.method == Method::path ||
                      route.method == Method::minimum_norm || route.method == Method::newton;
  if (!(kernel || (direct && route.side == Side::dual)))
    return -ranks_.least(-own_.bytes(route, shape, threads));
  const Index n = shape.sets.whole().count;
  const comm::GridPlace place = ranks_.grid().place(n);
  const double edge = static_cast<double>(place.block), size = static_cast<double>(n);
  const double part =
      8 * (std::ceil(size / (edge * place.rows)) * edge) * (std::ceil(size / (edge * place.columns)) * edge);
  const double all_sets = 8 * static_cast<double>(shape.sets.dim()) *
                          ranks_.sum(static_cast<double>(shape.sets.count() + shape.sets.total_keys()));
  const double sets = all_sets * (1.0 / place.rows + 1.0 / place.columns);
  const bool eigen = route.method == Method::path || route.method == Method::minimum_norm;
  const double solver = eigen ? ranks_.grid().eigen_bytes(n) : 0.0;
  const double made = kernel ? 0.0 : part + 3 * 8 * backend::HeadProducts::kHeldFeatures;
  const backend::Route walk{Method::norm_ball};  // the passes over the rank's own features
  const double own = kernel ? all_sets / ranks_.size() : own_.bytes(walk, shape, threads);
  return -ranks_.least(-std::max(own + 3 * sets + (kernel ? 2 : 1) * part + std::max(made, solver),
                                 kernel ? 2 * all_sets : 0.0));
}

}  // namespace

std::unique_ptr<backend::Backend> make_sharded(backend::Backend& own, comm::Communicator& ranks) {
  return std::make_unique<ShardedBackend>(own, ranks);
}

backend::Backend& sharded(backend::Backend& own, comm::Communicator& ranks) {
  static std::map<std::pair<backend::Backend*, comm::Communicator*>, std::unique_ptr<backend::Backend>> made;
  std::unique_ptr<backend::Backend>& one = made[{&own, &ranks}];
  if (!one) one = make_sharded(own, ranks);
  return *one;
}

}  // namespace headlens::distributed

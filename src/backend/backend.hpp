// The seam between algorithms and machines. What is large (features, Gram matrices, attention of all
// examples) stays inside a back end; what is small (targets, coefficients, heads) crosses as plain host
// values. Fits, recoveries, kernels and studies are written once, against these interfaces, and never include
// a back end's folder.
//
// Same back end, same seed: same bytes, whatever the threads. Between back ends results agree to rounding.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "backend/design.hpp"
#include "backend/factors.hpp"
#include "backend/kernel.hpp"
#include "backend/layer_problem.hpp"
#include "backend/route.hpp"
#include "backend/scorer.hpp"
#include "comm/communicator.hpp"
#include "headlens/device_memory.hpp"
#include "headlens/execution.hpp"
#include "headlens/info.hpp"

namespace headlens {
struct TiedShape;
struct VariantShape;
}  // namespace headlens

namespace headlens::backend {

class Backend;

// What one call runs on. References outlive the call.
struct Context {
  Backend& machine;
  int threads = 1;
  const Execution& execution;
  comm::Communicator& ranks = comm::serial();  // that work together, each on its part of the sets
};

// Training sets and what their features are. References outlive what is made of them. On several ranks these
// are the sets of this rank, a part of the whole (Sets::whole): means, Gram matrices of the primal side,
// their right sides and leave-one-out errors are those of all parts, summed by context.ranks.
struct FeatureSource {
  const Sets& sets;
  const FeatureOptions& features;  // with the scales filled in
  bool centre = true;              // subtract the mean from every column
  Index block_sets = 0;  // sets whose features are computed at once; 0: chosen. Never changes a result.

  Index keys() const { return features.kind == ModelKind::mlp ? sets.keys_of(0) : 0; }  // where equal
};

// A back end makes the objects that hold what is large. A back end that does not have one of them throws.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;  // as in `headlens info`, models and certificates

  // Features of heads (M, D, D), or (M, (N + 1) D) for mlp, as in the model file.
  virtual std::unique_ptr<Design> make_design(const FeatureSource& source, const Array& heads,
                                              const Context& context);
  // Infinitely many heads: Nystrom features phi(x) = L^-1 (K(x, z_1), .., K(x, z_m)), K(z, z) = L L^T, of
  // centres z_j that have their positions.
  virtual std::unique_ptr<Design> make_centre_design(const FeatureSource& source, const Sets& centres,
                                                     const Context& context);
  // On several ranks: of all sets, which the source holds a part of.
  virtual KernelGram make_kernel_gram(const FeatureSource& source, MatrixView<const double> targets,
                                      const Context& context);

  // Whether a Gram matrix of this side can be had in f32.
  virtual bool has_few_digits(Side) const { return true; }
  // p of the design that would be made, as a double: it may overflow an Index.
  virtual double columns(const FeatureOptions& features, Index dim, Index keys) const;
  // The peak of memory of a route, the data and the model included, but for vectors of the algorithms.
  virtual double bytes(const Route& route, const Shape& shape, int threads) const;

  // What is free of the memory that bytes() counts.
  virtual std::uint64_t free_bytes() const;
  // Features up to this size are held where they fit: beyond it, computing them again costs little beside the
  // Gram matrix.
  virtual double held_features_bytes() const { return 1024.0 * 1024 * 1024; }

  // The device, and memory of it that somebody else holds: sets that lie there are read there.
  virtual int device_number() const;
  virtual std::shared_ptr<const DeviceMemory> borrow(std::shared_ptr<void> address, std::size_t bytes) const;

  // max_keys: the largest of all sets to come. Keeps a reference to the model.
  virtual std::unique_ptr<Scorer> make_scorer(const Model& model, Index max_keys);
  // What the values of a model read, (n, M D) or the kernel with the sets it keeps, in the order of its
  // values. On the device, if the sets lie there.
  virtual Array features(const Model& model, const Sets& sets, const Context& context);

  // K(a, b), or K(a, a) where b is null. exact: full accuracy for every pair, slowly.
  virtual std::unique_ptr<ClosedKernel> make_kernel(const Sets& a, const Sets* b,
                                                    const FeatureOptions& features, bool exact,
                                                    const Context& context);
  virtual std::unique_ptr<HeadProducts> make_head_products(const Sets& a, const Sets* b,
                                                           const FeatureOptions& features, const Array& heads,
                                                           const Context& context);

  // Whether make_layer_problem() is there.
  virtual bool recovers_all_entries() const { return true; }
  // Whether labels may be missing (LayerExamples::seen), and factors may have what HeadRanks::plain()
  // excludes and padding.
  virtual bool recovers_from_a_part() const { return false; }
  // The recovery of so many heads from examples.
  virtual std::unique_ptr<LayerProblem> make_layer_problem(const LayerExamples& examples, Index heads,
                                                           const Context& context);
  // The same for layers with a mask, biases, rotary positions or padding (attention/variant_map.hpp).
  virtual std::unique_ptr<LayerProblem> make_variant_problem(const LayerExamples& examples,
                                                             const VariantShape& shape,
                                                             const Context& context);
  // The same for heads that share keys and values (attention/tied_map.hpp).
  virtual std::unique_ptr<LayerProblem> make_tied_problem(const LayerExamples& examples,
                                                          const TiedShape& shape, const Context& context);
  // The same in factors of these ranks (factors.hpp), and its first-order phase from a start.
  virtual std::unique_ptr<LayerProblem> make_factor_problem(const LayerExamples& examples,
                                                            const HeadRanks& ranks, const Context& context);
  virtual std::unique_ptr<FactorDescent> make_factor_descent(const LayerExamples& examples,
                                                             const HeadRanks& ranks,
                                                             const FactorValues& start,
                                                             const Context& context);
  // F (n k, e) of the tokens of examples.
  virtual Matrix<double> apply_factors(const LayerExamples& examples, const HeadRanks& ranks,
                                       const FactorValues& values, const Context& context);
  // |F - Y|^2 of examples. Where a machine does not override this, from apply_factors().
  virtual double factor_squares(const LayerExamples& examples, const HeadRanks& ranks,
                                const FactorValues& values, const Context& context);
};

// The back end that the execution asks for. Error if the back end is absent, with the way to get it.
Context context_of(const Execution& execution);

// The CUDA back end. Error if it is absent, with the way to get it.
Backend& cuda_machine();

// All that this build knows of, with the reason where one is absent.
std::vector<BackendInfo> backends();

// Every call runs on `machine` while this lives. For tests, which bring back ends of their own.
class Replacement {
 public:
  explicit Replacement(Backend& machine);
  ~Replacement();
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

 private:
  Backend* before_;
};

}  // namespace headlens::backend

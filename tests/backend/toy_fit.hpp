// The toy back end's features and kernels, from tests/reference, and the machine that hands them out.
#pragma once

#include <limits>

#include "backend/toy_design.hpp"
#include "features/kept_sets.hpp"
#include "reference/features.hpp"
#include "reference/kernel.hpp"

namespace headlens::toy {

// The features of one set, in the order of the model file.
inline std::vector<double> features_of(const reference::PlainSet& set, const Array& heads,
                                       const FeatureOptions& f) {
  std::vector<double> out;
  for (Index m = 0; m < heads.dim(0); ++m) {
    if (f.kind == ModelKind::mlp)
      out.push_back(double(reference::neuron_feature(set, heads, m)));
    else
      for (const reference::Real x : reference::head_features(set, heads, m, f.score))
        out.push_back(double(x));
  }
  return out;
}

inline reference::PlainKernel plain_kernel(const FeatureOptions& f) {
  return {f.kind, *f.bias_scale, *f.weight_scale, f.score, f.positions};
}

inline Dense kernel(const Sets& a, Positions of_a, const Sets& b, Positions of_b, const FeatureOptions& f) {
  Dense out(a.count(), b.count());
  for (Index i = 0; i < a.count(); ++i)
    for (Index j = 0; j < b.count(); ++j)
      out(i, j) = reference::kernel_entry(reference::plain_set(a, i, of_a), reference::plain_set(b, j, of_b),
                                          plain_kernel(f));
  return out;
}

// phi(x) = L^-1 K(x, z), values become a = L^-T V.
class CentreDesign final : public Design {
 public:
  CentreDesign(const Dense& cross, Dense root, bool centred, FitCalls& calls)
      : Design(reference::transposed(reference::solve(root, reference::transposed(cross))), centred, 1,
               calls),
        root_(std::move(root)) {}
  Matrix<double> stored(MatrixView<const double> values) const override {
    return matrix(reference::solve(reference::transposed(root_), dense(values)));
  }

 private:
  Dense root_;
};

class Scorer final : public backend::Scorer {
 public:
  Scorer(const Model& model, FitCalls& calls) : model_(model), calls_(calls) { ++calls_.scorers; }

  void multiply(const Sets& sets, Index first, Index last, MatrixView<double> out, int) const override {
    const FeatureOptions& f = model_.features;
    ++calls_.scores;
    for (Index s = first; s < last; ++s) {
      const reference::PlainSet set = reference::plain_set(sets, s, f.positions);
      std::vector<double> phi;
      if (!f.infinite()) phi = features_of(set, model_.heads, f);
      for (Index i = 0; f.infinite() && i < model_.support.query.dim(0); ++i)
        phi.push_back(reference::kernel_entry(
            set, reference::plain_set(sets_of(model_.support), i, Positions::none), plain_kernel(f)));
      for (Index c = 0; c < out.cols; ++c) {
        double sum = 0;
        for (std::size_t j = 0; j < phi.size(); ++j)
          sum += phi[j] * model_.values.at(Index(j) * model_.outputs + c);
        out(s - first, c) = sum;
      }
    }
  }
  Index tile_sets() const override { return 1; }
  Index largest_block() const override { return 7; }
  bool wants_all_threads() const override { return true; }
  double packed_bytes() const override { return 0; }
  double buffer_bytes(Index, int) const override { return 0; }

 private:
  const Model& model_;
  FitCalls& calls_;
};

class FitMachine : public backend::Backend {
 public:
  std::string_view name() const override { return "toy"; }

  std::unique_ptr<backend::Design> make_design(const backend::FeatureSource& source, const Array& heads,
                                               const backend::Context&) override {
    const FeatureOptions& f = source.features;
    Dense phi(source.sets.count(), Index(columns_of(heads, source.sets, f)));
    for (Index s = 0; s < phi.rows; ++s) {
      const std::vector<double> row =
          features_of(reference::plain_set(source.sets, s, f.positions), heads, f);
      for (Index j = 0; j < phi.cols; ++j) phi(s, j) = row[row.size() - 1 - std::size_t(j)];
    }
    const Index head_columns = phi.cols / heads.dim(0);
    return std::make_unique<Design>(std::move(phi), source.centre, head_columns, fit_calls);
  }
  std::unique_ptr<backend::Design> make_centre_design(const backend::FeatureSource& source,
                                                      const Sets& centres, const backend::Context&) override {
    const FeatureOptions& f = source.features;
    Dense own = kernel(centres, Positions::none, centres, Positions::none, f);
    // The jitter of the seam's contract: a few roundings of the trace.
    own = shifted(own, 10 * std::numeric_limits<double>::epsilon() * trace(own));
    return std::make_unique<CentreDesign>(kernel(source.sets, f.positions, centres, Positions::none, f),
                                          *cholesky(own), source.centre, fit_calls);
  }
  backend::KernelGram make_kernel_gram(const backend::FeatureSource& source, MatrixView<const double> targets,
                                       const backend::Context&) override {
    ++fit_calls.kernels;
    const FeatureOptions& f = source.features;
    const Dense raw = kernel(source.sets, f.positions, source.sets, f.positions, f);
    Dense centred = raw;
    std::vector<double> means(std::size_t(raw.rows), 0.0);
    if (source.centre) {
      means = centre(centred);
      centred = reference::transposed(centred);
      centre(centred);
    }
    const backend::GramRequest request{.targets = targets, .intercept = source.centre};
    return {std::make_unique<Gram>(centred, raw, request, Matrix<double>(), fit_calls), means};
  }
  double columns(const FeatureOptions& f, Index dim, Index) const override {
    return double(f.heads) * double(f.kind == ModelKind::mlp ? 1 : dim + 1);
  }
  double bytes(const backend::Route&, const backend::Shape&, int) const override { return 1; }
  std::unique_ptr<backend::Scorer> make_scorer(const Model& model, Index) override {
    return std::make_unique<Scorer>(model, fit_calls);
  }

  FitCalls fit_calls;

 private:
  double columns_of(const Array& heads, const Sets& sets, const FeatureOptions& f) const {
    return double(heads.dim(0)) * (f.kind == ModelKind::mlp ? 1.0 : double(sets.dim() + 1));
  }
};

}  // namespace headlens::toy

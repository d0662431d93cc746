#include "cpu/scorers/model_features.hpp"

#include <algorithm>

#include "base/memory.hpp"
#include "cpu/design/design_matrix.hpp"
#include "cpu/features/feature_map.hpp"
#include "cpu/kernels/closed_form.hpp"
#include "features/kept_sets.hpp"
#include "headlens/error.hpp"

namespace headlens::cpu {
namespace {

template <class T>
Array head_features(const Model& model, const Sets& sets, const backend::Context& context) {
  const auto map = FeatureMap<T>::make(model.features, model.dim, model.keys, model.heads);
  const Index n = sets.count(), columns = map->heads() * map->width();
  const Index step = std::min(n, default_block_sets(map->columns()));
  const double items = static_cast<double>(n) * static_cast<double>(columns) +
                       static_cast<double>(step) * static_cast<double>(map->columns());
  MemoryBudget(context.execution).require(items * sizeof(T), join("the features of ", n, " sets"));
  Matrix<T> packed(step, map->columns());
  Array out(dtype_of<T>(), {n, columns});
  const MatrixView<T> all(out.data<T>(), n, columns);
  for (Index first = 0; first < n; first += step) {
    context.execution.check_cancelled();
    context.execution.report("features", static_cast<double>(first), static_cast<double>(n));
    const Index count = std::min(step, n - first);
    const MatrixView<T> block = packed.view().block(0, 0, count, map->columns());
    map->compute(sets, first, first + count, block, context.threads);
    for (Index m = 0; m < map->heads(); ++m)
      for (Index j = 0; j < map->width(); ++j)
        for (Index i = 0; i < count; ++i)
          all(first + i, m * map->width() + j) = block(i, map->column_of(m, j));
  }
  return out;
}

// K(x, z_i) for the sets z_i that the model keeps. Their positions are already added.
template <class T>
Array kernel_features(const Model& model, const Sets& sets, const backend::Context& context) {
  const FeatureOptions& f = model.features;
  const Sets support = sets_of(model.support);
  const ClosedFormKernel kernel(f, false);
  const TokenSource left(sets, f.kind, f.positions, f.precision);
  const TokenSource right(support, f.kind, Positions::none, f.precision);
  const Index n = sets.count(), m = support.count();
  const double items = static_cast<double>(n) * static_cast<double>(m);
  MemoryBudget(context.execution)
      .require(items * sizeof(T) + kernel.buffer_bytes(left, right, context.threads),
               join("the kernel of ", n, " by ", m, " sets"));
  Array out(dtype_of<T>(), {n, m});
  kernel.compute(left, 0, n, right, MatrixView<T>(out.data<T>(), n, m), context.execution);
  return out;
}

template <class T>
Array features_of(const Model& model, const Sets& sets, const backend::Context& context) {
  return model.features.infinite() ? kernel_features<T>(model, sets, context)
                                   : head_features<T>(model, sets, context);
}

}  // namespace

Array model_features(const Model& model, const Sets& sets, const backend::Context& context) {
  return model.features.precision == Precision::f32 ? features_of<float>(model, sets, context)
                                                    : features_of<double>(model, sets, context);
}

}  // namespace headlens::cpu

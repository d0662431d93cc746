#include "features/kept_sets.hpp"

#include "features/positions.hpp"

namespace headlens {
namespace {

template <class T>
Support pack(const Sets& sets, const std::vector<Index>& chosen, const std::vector<double>& table) {
  const Index m = static_cast<Index>(chosen.size()), dim = sets.dim();
  std::vector<std::int64_t> offsets{0};
  for (const Index set : chosen) offsets.push_back(offsets.back() + sets.keys_of(set));
  Support support{Array(dtype_of<T>(), {m, dim}), {}, {}};
  support.keys = sets.equal_sizes() ? Array(dtype_of<T>(), {m, sets.keys_of(0), dim})
                                    : Array(dtype_of<T>(), {static_cast<Index>(offsets.back()), dim});
  for (Index i = 0; i < m; ++i) {
    const auto at = static_cast<std::size_t>(i);
    copy_with_positions(sets, chosen[at], table, support.query.template data<T>() + i * dim,
                        support.keys.template data<T>() + offsets[at] * dim);
  }
  if (!sets.equal_sizes()) support.offsets = std::move(offsets);
  return support;
}

}  // namespace

Support make_support(const Sets& sets, const std::vector<Index>& chosen, const FeatureOptions& features) {
  const std::vector<double> table = position_table(features.positions, sets.max_keys() + 1, sets.dim());
  return features.precision == Precision::f32 ? pack<float>(sets, chosen, table)
                                              : pack<double>(sets, chosen, table);
}

Sets sets_of(const Support& support) {
  return support.offsets.empty()
             ? Sets::from_arrays(support.query, support.keys, "the model's sets")
             : Sets::from_ragged(support.query, support.keys, support.offsets, "the model's sets");
}

}  // namespace headlens

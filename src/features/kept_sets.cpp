#include "features/kept_sets.hpp"

#include "comm/gather_rows.hpp"
#include "features/positions.hpp"

namespace headlens {
namespace {

template <class T>
Support pack(const Sets& sets, const std::vector<Index>& chosen, const std::vector<double>& table) {
  const Index m = static_cast<Index>(chosen.size()), dim = sets.dim();
  std::vector<std::int64_t> offsets{0};
  for (const Index set : chosen) offsets.push_back(offsets.back() + sets.keys_of(set));
  const Whole whole = sets.whole();
  Support support{Array(dtype_of<T>(), {m, dim}), {}, {}};
  support.keys = whole.equal_sizes ? Array(dtype_of<T>(), {m, whole.first_keys, dim})
                                   : Array(dtype_of<T>(), {static_cast<Index>(offsets.back()), dim});
  for (Index i = 0; i < m; ++i) {
    const auto at = static_cast<std::size_t>(i);
    copy_with_positions(sets, chosen[at], table, support.query.template data<T>() + i * dim,
                        support.keys.template data<T>() + offsets[at] * dim);
  }
  if (!whole.equal_sizes) support.offsets = std::move(offsets);
  return support;
}

}  // namespace

Support gather_support(const Sets& sets, const std::vector<Index>& chosen, const FeatureOptions& features,
                       comm::Communicator& ranks) {
  if (ranks.alone()) return make_support(sets, chosen, features);
  const Index first = sets.whole().first;
  std::vector<Index> here;
  for (const Index set : chosen)
    if (set >= first && set < first + sets.count()) here.push_back(set - first);
  const Support mine = make_support(sets, here, features);
  Support all{comm::gather_rows(mine.query, ranks), comm::gather_rows(mine.keys, ranks), {}};
  if (mine.offsets.empty()) return all;
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 1; i < mine.offsets.size(); ++i)
    sizes.push_back(mine.offsets[i] - mine.offsets[i - 1]);
  all.offsets = {0};
  for (const std::int64_t size : comm::gather(ranks, std::span<const std::int64_t>(sizes)))
    all.offsets.push_back(all.offsets.back() + size);
  return all;
}

Support make_support(const Sets& sets, const std::vector<Index>& chosen, const FeatureOptions& features) {
  const std::vector<double> table = position_table(features.positions, sets.whole().max_keys + 1, sets.dim());
  return features.precision == Precision::f32 ? pack<float>(sets, chosen, table)
                                              : pack<double>(sets, chosen, table);
}

Sets sets_of(const Support& support) {
  return support.offsets.empty()
             ? Sets::from_arrays(support.query, support.keys, "the model's sets")
             : Sets::from_ragged(support.query, support.keys, support.offsets, "the model's sets");
}

}  // namespace headlens

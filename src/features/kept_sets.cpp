#include "features/kept_sets.hpp"

#include <algorithm>

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

// Of `chosen`, which increase, those of this rank, counted from its first.
std::vector<Index> own_of(const Sets& sets, const std::vector<Index>& chosen) {
  const Index first = sets.whole().first;
  const auto begin = std::lower_bound(chosen.begin(), chosen.end(), first);
  const auto end = std::lower_bound(begin, chosen.end(), first + sets.count());
  std::vector<Index> out(begin, end);
  for (Index& set : out) set -= first;
  return out;
}

// Numbers of keys as an array, and back.
Array sizes_of(const Support& support) {
  const auto& offsets = support.offsets;
  Array out(DType::i64, {std::max<Index>(1, std::ssize(offsets)) - 1});
  for (Index i = 0; i < out.size(); ++i)
    out.data<std::int64_t>()[i] =
        offsets[static_cast<std::size_t>(i + 1)] - offsets[static_cast<std::size_t>(i)];
  return out;
}

std::vector<std::int64_t> offsets_of(const Array& sizes) {
  std::vector<std::int64_t> out{0};
  for (Index i = 0; i < sizes.size(); ++i) out.push_back(out.back() + sizes.data<std::int64_t>()[i]);
  return out;
}

// Query, keys and, of ragged sets, sizes, each moved between ranks.
template <class Move>
Support moved(const Sets& sets, const Move& move) {
  Support out{move([](const Support& part) { return part.query; }),
              move([](const Support& part) { return part.keys; }),
              {}};
  if (!sets.whole().equal_sizes) out.offsets = offsets_of(move(sizes_of));
  return out;
}

}  // namespace

Support gather_support(const Sets& sets, const std::vector<Index>& chosen, const FeatureOptions& features,
                       Where where, comm::Communicator& ranks) {
  if (ranks.alone()) return make_support(sets, chosen, features);
  const Support mine = make_support(sets, own_of(sets, chosen), features);
  return moved(sets, [&](const auto& array_of) {
    return where == Where::everywhere ? comm::gather_rows(array_of(mine), ranks)
                                      : comm::gather_rows_on_first(array_of(mine), ranks);
  });
}

Support exchange_support(const Sets& sets, const std::vector<std::vector<Index>>& wanted,
                         const FeatureOptions& features, comm::Communicator& ranks) {
  std::vector<Support> parts;
  for (const std::vector<Index>& chosen : wanted)
    parts.push_back(make_support(sets, own_of(sets, chosen), features));
  return moved(sets, [&](const auto& array_of) {
    std::vector<Array> to;
    for (const Support& part : parts) to.push_back(array_of(part));
    return comm::exchange_rows(to, ranks);
  });
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

#include "cuda/features/tokens.hpp"

#include <algorithm>

#include "base/parallel.hpp"
#include "cuda/features/pack.hpp"
#include "cuda/staging.hpp"
#include "features/positions.hpp"

namespace headlens::cuda {
namespace {

template <class T>
void pack_set(const Sets& sets, Index set, const std::vector<double>& table, T* to) {
  const Index dim = sets.dim(), keys = sets.keys_of(set);
  thread_local std::vector<T> plain;
  plain.resize(static_cast<std::size_t>((keys + 1) * dim));
  copy_with_positions(sets, set, table, plain.data(), plain.data() + dim);
  for (Index k = 0; k <= keys; ++k) {
    std::copy_n(plain.data() + k * dim, dim, to + k * (dim + 1));
    to[k * (dim + 1) + dim] = T(1);
  }
}

// Row of set s of those that are packed: begin[s] D.
template <class T>
void upload_packed(const Sets& sets, Index first, const std::vector<std::int64_t>& begin,
                   const std::vector<double>& table, int threads, Tokens<T>& out) {
  constexpr Index kShare = 64;  // sets that a thread takes at a time
  const auto at = [&](Index s) { return begin[static_cast<std::size_t>(s)] * out.width; };
  const auto chunk_items = static_cast<Index>(Staging::kBytes / sizeof(T));
  for (Index s = 0, end; s < out.count; s = end) {
    for (end = s + 1; end < out.count && at(end + 1) - at(s) <= chunk_items;) ++end;
    const std::size_t bytes = static_cast<std::size_t>(at(end) - at(s)) * sizeof(T);
    T* to = static_cast<T*>(staging().next(bytes));
    parallel_for(threads, (end - s + kShare - 1) / kShare, [&](Index share, int) {
      for (Index k = s + share * kShare; k < std::min(end, s + (share + 1) * kShare); ++k)
        pack_set(sets, first + k, table, to + at(k) - at(s));
    });
    staging().send(out.rows.data() + at(s), bytes);
  }
}

}  // namespace

template <class T>
Tokens<T> pack_tokens(const Sets& sets, Index first, Index last, const std::vector<double>& table,
                      int threads) {
  Tokens<T> out;
  out.count = last - first;
  out.width = sets.dim() + 1;
  out.max_keys = sets.whole().max_keys;
  std::vector<std::int64_t> begin{0};
  for (Index s = first; s < last; ++s) begin.push_back(begin.back() + sets.keys_of(s) + 1);
  out.begin = DeviceArray<std::int64_t>::from(begin);
  out.rows = DeviceArray<T>(begin.back() * out.width);
  if (sets.on_device())
    pack_on_device(sets, first, table, out);
  else
    upload_packed(sets, first, begin, table, threads, out);
  return out;
}

double token_bytes(const Sets& sets, std::size_t item) {
  const auto n = static_cast<double>(sets.count());
  return (n + static_cast<double>(sets.total_keys())) * static_cast<double>(sets.dim() + 1) *
             static_cast<double>(item) +
         8 * (n + 1);
}

template Tokens<float> pack_tokens(const Sets&, Index, Index, const std::vector<double>&, int);
template Tokens<double> pack_tokens(const Sets&, Index, Index, const std::vector<double>&, int);

}  // namespace headlens::cuda

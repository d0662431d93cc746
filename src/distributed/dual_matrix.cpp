#include "distributed/dual_matrix.hpp"

#include <algorithm>

#include "features/kept_sets.hpp"

namespace headlens::distributed {
namespace {

struct Sides {
  Sets rows, columns;  // of the entries of this rank, with positions added
};

// Where in `all` the indices of `some` are; both increase.
std::vector<Index> places_in(const std::vector<Index>& all, const std::vector<Index>& some) {
  std::vector<Index> out;
  for (const Index i : some) out.push_back(std::lower_bound(all.begin(), all.end(), i) - all.begin());
  return out;
}

Sides sides_of(const CyclicMatrix& layout, const backend::FeatureSource& source, comm::Communicator& ranks) {
  const std::vector<std::vector<Index>> wanted = all_indices(layout.n, ranks);
  const Sets sets = sets_of(exchange_support(source.sets, wanted, source.features, ranks));
  const std::vector<Index>& mine = wanted[static_cast<std::size_t>(ranks.rank())];
  FeatureOptions plain = source.features;
  plain.positions = Positions::none;
  return {sets_of(make_support(sets, places_in(mine, layout.rows), plain)),
          sets_of(make_support(sets, places_in(mine, layout.columns), plain))};
}

Array as_double(const Array& array) {
  Array out(DType::f64, array.shape());
  for (Index i = 0; i < array.size(); ++i) out.data<double>()[i] = array.at(i);
  return out;
}

}  // namespace

CyclicMatrix kernel_matrix(const backend::FeatureSource& source, backend::Backend& own,
                           const backend::Context& context) {
  CyclicMatrix out = cyclic_layout(source.sets.whole().count, context.ranks);
  const Sides sides = sides_of(out, source, context.ranks);
  FeatureOptions plain = source.features;
  plain.positions = Positions::none;
  out.local = Array(DType::f64, {std::ssize(out.columns), std::ssize(out.rows)});
  own.make_kernel(sides.columns, &sides.rows, plain, false, context)->compute(out.local);
  return out;
}

CyclicMatrix head_matrix(const backend::FeatureSource& source, const Array& heads, backend::Backend& own,
                         const backend::Context& context) {
  CyclicMatrix out = cyclic_layout(source.sets.whole().count, context.ranks);
  const Sides sides = sides_of(out, source, context.ranks);
  FeatureOptions plain = source.features;
  plain.positions = Positions::none;
  plain.precision = Precision::f64;
  const Array exact = as_double(heads);
  const auto products = own.make_head_products(sides.columns, &sides.rows, plain, exact, context);
  const MatrixView<const double> sum = products->sum(0, products->blocks());
  out.local = Array(DType::f64, {sum.rows, sum.cols});
  copy_rows(sum, out.view());
  return out;
}

}  // namespace headlens::distributed

#include "features/positions.hpp"

#include <cmath>

namespace headlens {

std::vector<double> position_table(Positions positions, Index count, Index dim) {
  if (positions == Positions::none) return {};
  std::vector<double> table(static_cast<std::size_t>(count * dim));
  for (Index i = 0; i < count; ++i)
    for (Index j = 0; j < dim; ++j) {
      const double rate = std::pow(10000.0, -static_cast<double>(j - j % 2) / static_cast<double>(dim));
      const double angle = static_cast<double>(i) * rate;
      table[static_cast<std::size_t>(i * dim + j)] = j % 2 == 0 ? std::sin(angle) : std::cos(angle);
    }
  return table;
}

template <class T>
void copy_with_positions(const Sets& sets, Index s, const std::vector<double>& table, T* query, T* keys) {
  const Index dim = sets.dim();
  sets.copy_set(s, query, keys, dim);
  if (table.empty()) return;
  for (Index k = 0; k < sets.keys_of(s); ++k) {
    const double* code = table.data() + sets.key_position(s, k) * dim;
    for (Index j = 0; j < dim; ++j) keys[k * dim + j] = static_cast<T>(keys[k * dim + j] + code[j]);
  }
}

template void copy_with_positions(const Sets&, Index, const std::vector<double>&, float*, float*);
template void copy_with_positions(const Sets&, Index, const std::vector<double>&, double*, double*);

}  // namespace headlens

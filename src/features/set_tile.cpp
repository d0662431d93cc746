#include "features/set_tile.hpp"

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
void SetTile<T>::pack(const Sets& sets, Index begin, Index end, const std::vector<double>& table) {
  dim_ = sets.dim();
  key_begin_.assign(1, 0);
  for (Index s = begin; s < end; ++s) key_begin_.push_back(key_begin_.back() + sets.keys_of(s));
  queries_.resize(static_cast<std::size_t>((end - begin) * dim_));
  keys_.resize(static_cast<std::size_t>(key_begin_.back() * dim_));
  for (Index s = begin; s < end; ++s) {
    T* keys = keys_.data() + key_begin_[static_cast<std::size_t>(s - begin)] * dim_;
    sets.copy_set(s, queries_.data() + (s - begin) * dim_, keys, dim_);
    if (table.empty()) continue;
    for (Index k = 0; k < sets.keys_of(s); ++k) {
      const double* code = table.data() + sets.key_position(s, k) * dim_;
      for (Index j = 0; j < dim_; ++j) keys[k * dim_ + j] = static_cast<T>(keys[k * dim_ + j] + code[j]);
    }
  }
}

template class SetTile<float>;
template class SetTile<double>;

}  // namespace headlens

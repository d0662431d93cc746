#include "cpu/features/set_tile.hpp"

namespace headlens::cpu {

template <class T>
void SetTile<T>::pack(const Sets& sets, Index begin, Index end, const std::vector<double>& table) {
  dim_ = sets.dim();
  key_begin_.assign(1, 0);
  for (Index s = begin; s < end; ++s) key_begin_.push_back(key_begin_.back() + sets.keys_of(s));
  queries_.resize(static_cast<std::size_t>((end - begin) * dim_));
  keys_.resize(static_cast<std::size_t>(key_begin_.back() * dim_));
  for (Index s = begin; s < end; ++s)
    copy_with_positions(sets, s, table, queries_.data() + (s - begin) * dim_,
                        keys_.data() + key_begin_[static_cast<std::size_t>(s - begin)] * dim_);
}

template class SetTile<float>;
template class SetTile<double>;

}  // namespace headlens::cpu

#include "cuda/layer/positions.hpp"

#include <cmath>

namespace headlens::cuda {

template <class T>
Positions<T>::Positions(const backend::HeadRanks& ranks, Index tokens) {
  const Index rank = ranks.turned_rank(), pairs = ranks.rotary ? ranks.rotary->pairs(rank) : 0;
  if (pairs == 0) return;
  const auto [first, second] = ranks.rotary->columns(0, rank);
  const Index step = pairs > 1 ? ranks.rotary->columns(1, rank).first - first : 1;
  shape_ = {tokens, pairs, (ranks.logit_columns() + ranks.key_columns()) / rank, rank, step, second - first};
  std::vector<T> cosine, sine;
  for (Index a = 0; a < tokens; ++a)
    for (Index j = 0; j < pairs; ++j) {
      const double angle = static_cast<double>(a) * ranks.rotary->frequency(j, rank);
      cosine.push_back(static_cast<T>(std::cos(angle)));
      sine.push_back(static_cast<T>(std::sin(angle)));
    }
  cosine_ = DeviceArray<T>::from(cosine);
  sine_ = DeviceArray<T>::from(sine);
}

template <class T>
void Positions<T>::turn(DeviceMatrix<T>& z, int sign) const {
  if (shape_.pairs > 0)
    turn_pairs(shape_, cosine_.data(), sine_.data(), static_cast<T>(sign), z.rows(), z.cols(), z.data());
}

template class Positions<float>;
template class Positions<double>;

}  // namespace headlens::cuda

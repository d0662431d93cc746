#include "attention/tied_map.hpp"

#include "linalg/vector_space.hpp"

namespace headlens {

double TiedShape::parameters() const {
  const double queries = static_cast<double>(heads * rank), keys = static_cast<double>(groups * rank),
               values = static_cast<double>(groups * value_rank), e = static_cast<double>(outputs);
  const double biases = bias ? queries + (rotary ? keys : 0) + e : 0;
  return static_cast<double>(dim()) * (queries + keys + values) +
         static_cast<double>(heads * value_rank) * e + biases;
}

TiedLayer copy_of(const TiedLayer& layer) {
  return {layer.shape, headlens::copy_of(layer.parameters), headlens::copy_of(layer.readout)};
}

FactoredHeadShape TiedShape::map_shape() const {
  FactoredHeadShape out{.common = {heads, columns(), features(), mask, rotary, rank},
                        .turned = heads + groups,
                        .constant = bias};
  for (Index i = 0; i < heads; ++i)
    out.heads.push_back({q(i), k(group(i)), v(group(i)), i * value_rank, rank, value_rank});
  return out;
}

Matrix<double> apply_tied(const TiedLayer& layer, MatrixView<const double> x, Index tokens,
                          const std::vector<Index>& lengths, int threads) {
  return apply_in_parts(x, tokens, lengths, layer.readout.view(), threads,
                        [&](MatrixView<const double> rows, const std::vector<Index>& own) {
                          const TiedMap<double> map(rows, tokens, layer.shape, own, threads);
                          return features_of(map, layer.parameters.view());
                        });
}

}  // namespace headlens

#include "cpu/layer/factor_map.hpp"

namespace headlens::cpu {
namespace {

// Queries and keys of all heads lie side by side, each of as many columns.
FactoredHeadShape shape_of(const backend::HeadRanks& ranks) {
  const Index rank = ranks.turned_rank();
  return {.common = {ranks.heads(), ranks.parameter_columns(), ranks.value_columns(),
                     ranks.causal ? Mask::causal : Mask::none, ranks.rotary, rank},
          .heads = backend::columns_of(ranks),
          .turned = rank == 0 ? 0 : (ranks.logit_columns() + ranks.key_columns()) / rank};
}

}  // namespace

template <class T>
FactorMap<T>::FactorMap(In x, Index tokens, const backend::HeadRanks& ranks,
                        const std::vector<Index>& lengths, int threads)
    : FactoredHeadMap<T>(x, tokens, shape_of(ranks), lengths, threads), ranks_(ranks) {}

template <class T>
void FactorMap<T>::adjoint(In z, In p, In g, Out dparameters) const {
  FactoredHeadMap<T>::adjoint(z, p, g, dparameters);
  backend::pin(ranks_, dparameters);
}

Matrix<double> apply_factors(const backend::LayerExamples& examples, const backend::HeadRanks& ranks,
                             const backend::FactorValues& values, int threads) {
  return apply_in_parts(examples.x, examples.tokens, examples.lengths, values.o.view(), threads,
                        [&](MatrixView<const double> rows, const std::vector<Index>& lengths) {
                          const FactorMap<double> map(rows, examples.tokens, ranks, lengths, threads);
                          return features_of(map, values.parameters.view());
                        });
}

template class FactorMap<float>;
template class FactorMap<double>;

}  // namespace headlens::cpu

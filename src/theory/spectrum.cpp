#include "theory/spectrum.hpp"

#include "headlens/error.hpp"
#include "theory/attention_spectrum.hpp"
#include "theory/network_spectrum.hpp"

namespace headlens {

std::unique_ptr<KernelSpectrum> make_spectrum(ModelKind model, Index dim, Index keys) {
  ensure(model != ModelKind::brfa, "brfa is not diagonal in harmonics: biased_kernel.hpp");
  if (model == ModelKind::mlp) return std::make_unique<NetworkSpectrum>(dim, keys);
  return std::make_unique<AttentionSpectrum>(dim, keys);
}

}  // namespace headlens

#include "linalg/cg_recurrence.hpp"

#include <cmath>
#include <utility>

namespace headlens {
namespace {

using Columns = CgSystem::Columns;

// 0 where there is nothing to divide by.
Columns ratios(const Columns& above, const Columns& below) {
  Columns out(above.size(), 0.0);
  for (std::size_t j = 0; j < out.size(); ++j)
    if (below[j] > 0 && std::isfinite(below[j])) out[j] = above[j] / below[j];
  return out;
}

}  // namespace

void iterate(CgSystem& system, int most) {
  Columns before;
  for (int k = 0; k < most; ++k) {
    Columns sizes = system.sizes();
    if (!system.goes_on(sizes)) return;
    before.resize(sizes.size());
    system.turn(ratios(sizes, before));
    if (!system.move(ratios(sizes, system.curvatures()))) return;
    before = std::move(sizes);
  }
}

}  // namespace headlens

// Labels that are wrong by much, among labels that are right.
//
// Least squares is drawn to a label that is far off, so that a few of them hide the layer. Where a recovery
// ends without an exact layer, what is left of every label is compared with what is left of most: more than
// six robust deviations (1.48 times the median of |Y - F|) is an outlier. Outliers are then treated as
// missing, and the search begins again, until the outliers stay the same. Noise without outliers has no such
// labels: a Gaussian one of a million lies beyond 4.9 deviations. The search is not repeated where too few
// examples are the reason, nor where no label stands out (outliers.cpp).
#pragma once

#include <functional>

#include "headlens/recover.hpp"

namespace headlens::recovery {

// Recovers from these examples, within so many seconds where there is a limit.
using Recoverer = std::function<Recovery(const Examples&, std::optional<double> seconds)>;

Recovery recover_despite_outliers(const Examples& examples, const RecoverOptions& options,
                                  const Execution& execution, const Recoverer& recover);

}  // namespace headlens::recovery

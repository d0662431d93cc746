// What the leave-one-out predictions of the training sets say about predictions to come.
//
// Classifiers: probabilities 1 / (1 + exp(-a f)), or the softmax of a f, with the a that is most likely for
// the leave-one-out predictions. Regression: the first member is read as a Gaussian process, whose deviation
// at x is s sqrt(1 + 1/n + v(x) / penalty), v the variance of the process given the training sets; s is such
// that leave-one-out errors over their deviations s / sqrt(1 - h_i) have mean square one.
#pragma once

#include "automatic/spectrum.hpp"
#include "headlens/automatic.hpp"

namespace headlens::automatic {

// predictions: (n, q) leave-one-out, of the whole model; y: (n, q), -1 and 1 for classes.
void learn_uncertainty(AutomaticModel& model, const Spectrum& first, const LeaveOneOut& loo,
                       MatrixView<const double> predictions, MatrixView<const double> y);

}  // namespace headlens::automatic

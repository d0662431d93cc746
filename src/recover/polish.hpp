// To the last digit: Levenberg-Marquardt with the triangular factor of a linearisation, which sees the
// directions that conjugate gradients on normal equations cannot. What a solver leaves behind lies in those
// directions, however small the residual is: 1e-9 of the labels may be all of a head that is nearly parallel
// to another.
#pragma once

#include "recover/linearisation.hpp"

namespace headlens::recovery {

// From theta down to where rounding forbids another step; the best point that was seen. No value where theta
// cannot be linearised. Ends early if the effort must stop.
std::optional<Linearisation> polish(const Split& dense, const Matrix<double>& theta, const std::string& phase,
                                    Effort& effort);
std::optional<Linearisation> polish(const Split& dense, Linearisation from, const std::string& phase,
                                    Effort& effort);

}  // namespace headlens::recovery

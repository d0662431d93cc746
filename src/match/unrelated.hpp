// How likely unrelated layers are to look as alike as two layers do.
#pragma once

#include "headlens/match.hpp"

namespace headlens::matching {

// The probability that `beyond` or more of `pairs` matched pairs overlap more than the most similar of
// `null_pairs` pairs of unrelated heads, if matched pairs are each the best of `rivals` pairs like those.
//
// With U uniform overlaps (any continuous law will do) the largest of N is T with T^N uniform, and a best of
// b exceeds T with probability 1 - T^b, which has the law Beta(1, N / b). So the number of pairs beyond T is
// beta-binomial: exact for independent pairs, whatever the law of overlaps.
double chance_beyond(Index pairs, double rivals, double null_pairs, Index beyond);

// An upper bound on the probability that heads turned at random reach this sum of overlaps of `terms` forms
// of the given dimension, over `assignments` (their logarithm) ways to match them.
//
// The overlap of two forms, one of them turned on both sides by rotations, has E exp(t c) at most
// (1 - t^2 / D^2)^(-1/2), the value for rank one, with D^2 the product of both dimensions. Markov's
// inequality at the best t.
double chance_of_rotations(double sum, Index terms, double dimension, double log_assignments);

}  // namespace headlens::matching

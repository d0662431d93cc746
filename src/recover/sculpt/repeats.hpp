// Examples that were seen before. With d coordinates of signs there are 2^(d k) inputs at most, and those
// that differ in the order of their tokens, or in the sign of all of them, are the same to the layer: F(P X)
// = P F(X) and F(-X) = -F(X). Rows that agree best would be few rows many times, and say little.
#pragma once

#include "recover/candidate.hpp"

namespace headlens::recovery::sculpting {

struct DistinctExamples {
  Matrix<double> x, y;  // empty where nothing repeats: the split is then the given one
  Split split;          // training examples once each, with the mean of their labels
};
DistinctExamples average_repeated(const Split& split);

}  // namespace headlens::recovery::sculpting

// A claim of the paper against the cells: is `better` really smaller than `worse`, and where?
//
// Cells are paired: equal seed, equal value on every axis but those that tell the two apart, hence equal
// random sets. At each x, r = log(worse / better) of every seed gives an interval of its mean by Student's t;
// the factor exp(mean r) speaks for the claim where the interval lies above 1 and against it where below. The
// intervals hold at 95% for all x of a comparison together (Bonferroni): with ten sample sizes, one in ten
// claims about nothing would otherwise seem to hold somewhere.
#pragma once

#include <string>
#include <vector>

#include "headlens/report.hpp"
#include "report/summarise.hpp"

namespace headlens::report {

enum class Judgement { in_favour, against, undecided, untested };  // untested: fewer than two pairs

struct ComparedPoint {
  StudyValue x_value;
  double x = kNoNumber;
  bool in_range = true;                    // the claim is about this x
  Index seeds = 0, wins = 0, dropped = 0;  // dropped: pairs with a value that has no logarithm
  double factor = kNoNumber, lower = kNoNumber, upper = kNoNumber;  // worse / better
  Judgement judgement = Judgement::untested;
};

struct Comparison {
  std::string better, worse, quantity, x;
  std::string where;                            // "degree 1"; "" for all cells
  std::string better_identity, worse_identity;  // as identity_of() says; "" where it says nothing
  std::vector<ComparedPoint> points;            // by x
};

Comparison compare(const StudyResults& results, const FindingSpec& spec);
FindingResult judge(const Comparison& comparison, const FindingSpec& spec);

// Half the width of an interval at this level in standard errors, for 1 or more degrees of freedom.
double student_quantile(Index degrees, double level);

}  // namespace headlens::report

// What the words of a page mean: its models, methods, targets and quantities, and no others.
#pragma once

#include <string>
#include <vector>

#include "report/page.hpp"

namespace headlens::report {

struct Term {
  std::string id;       // of its place on the page
  std::string name;     // plain text
  std::string meaning;  // HTML; formulas by sub- and superscripts, so that they need no network
};

std::vector<Term> terms_of(const std::vector<PageStudy>& studies);

}  // namespace headlens::report

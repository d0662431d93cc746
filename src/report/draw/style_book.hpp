// Colours and markers: a model or a method has the same ones in every figure of every report.
//
// Colours of the models are those of Okabe and Ito, which the colour-blind can tell apart. Series that do not
// differ by model or method (degrees, sample sizes) get the remaining colours, and keep them on a page.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "report/draw/canvas.hpp"
#include "report/summarise.hpp"

namespace headlens::report {

// The model or method of a cell, as its options name it; by its label where it has no such option, and "" for
// names without a colour of their own.
std::string identity_of(const StudyValues& inputs, const std::string& label);
SeriesStyle style_of(const std::string& identity);  // of a name that identity_of() gave, not ""

SeriesStyle plain_style(std::size_t index);  // the colours that belong to no model

class StyleBook {
 public:
  std::vector<SeriesStyle> styles(const Summary& summary);  // one per series

 private:
  std::vector<SeriesStyle> plain_styles(const std::vector<std::string>& series);
  std::map<std::string, std::size_t> known_;
};

}  // namespace headlens::report

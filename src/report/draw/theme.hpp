// A figure as gnuplot wrote it, made fit for a page: it follows the reader's light or dark scheme, says what
// it shows, and shares a page with others.
#pragma once

#include <string>
#include <string_view>

namespace headlens::report {

// Colours stay as attributes, for programs that know no style sheets; the style sheet turns them over by
// their value in the dark. `prefix` keeps the ids of several figures on one page apart.
std::string themed(std::string_view svg, const std::string& prefix, const std::string& title);

}  // namespace headlens::report

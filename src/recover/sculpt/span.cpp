#include "recover/sculpt/span.hpp"

#include <algorithm>

namespace headlens::recovery::sculpting {

Span find_span(Body& body, Index heads, Index max_heads, SpanForm form, std::uint64_t seed, Effort& effort) {
  const Index most = std::min((heads > 0 ? heads : max_heads) - 1, body.unknowns() - 1);
  Span span;
  span.directions = form == SpanForm::membership
                        ? directions_by_membership(body, body.inner_point(), most, seed, effort)
                        : body.long_directions(most);
  const std::vector<double>& widths = span.directions.widths;
  const auto gap = [&](std::size_t after) {
    const double ratio = widths[after] > 0 ? widths[after - 1] / widths[after] : 0;
    return ratio * ratio;
  };
  std::size_t dimension = widths.empty() ? 0 : widths.size() - 1;
  if (heads == 0) {
    std::size_t best = 0;
    double largest = kSmallestGap;
    for (std::size_t after = 1; after < widths.size(); ++after)
      if (gap(after) > largest) largest = gap(after), best = after;
    dimension = best;
  }
  span.heads = static_cast<Index>(dimension) + 1;
  if (dimension > 0) span.eigengap = gap(dimension);
  return span;
}

}  // namespace headlens::recovery::sculpting

#include "attention/assignment.hpp"

#include <limits>

namespace headlens {

std::vector<Index> assign(const std::vector<std::vector<double>>& cost) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const std::size_t rows = cost.size(), columns = rows ? cost[0].size() : 0;
  std::vector<double> row_price(rows + 1), column_price(columns + 1);
  std::vector<std::size_t> owner(columns + 1), previous(columns + 1);
  for (std::size_t row = 1; row <= rows; ++row) {
    std::vector<double> slack(columns + 1, infinity);
    std::vector<bool> used(columns + 1, false);
    std::size_t column = 0;
    owner[0] = row;
    do {
      used[column] = true;
      const std::size_t from = owner[column];
      double step = infinity;
      std::size_t next = 0;
      for (std::size_t j = 1; j <= columns; ++j) {
        if (used[j]) continue;
        const double reduced = cost[from - 1][j - 1] - row_price[from] - column_price[j];
        if (reduced < slack[j]) slack[j] = reduced, previous[j] = column;
        if (slack[j] < step) step = slack[j], next = j;
      }
      for (std::size_t j = 0; j <= columns; ++j) {
        if (used[j])
          row_price[owner[j]] += step, column_price[j] -= step;
        else
          slack[j] -= step;
      }
      column = next;
    } while (owner[column] != 0);
    for (; column != 0; column = previous[column]) owner[column] = owner[previous[column]];
  }
  std::vector<Index> out(rows);
  for (std::size_t j = 1; j <= columns; ++j)
    if (owner[j] > 0) out[owner[j] - 1] = static_cast<Index>(j) - 1;
  return out;
}

}  // namespace headlens

#include "attention/ragged.hpp"

#include <algorithm>
#include <cmath>

#include "base/memory.hpp"
#include "headlens/error.hpp"

namespace headlens {
namespace {

std::vector<Index> read_offsets(const Array& offsets, Index total, const std::string& name) {
  require(offsets.rank() == 1 && offsets.size() >= 2 && offsets.dtype() != DType::boolean, name,
          ": offsets is ", offsets.describe(), ", expected whole numbers (n + 1,)");
  std::vector<Index> out;
  for (Index i = 0; i < offsets.size(); ++i) {
    const double at = offsets.at(i), least = i == 0 ? 0 : static_cast<double>(out.back() + 1);
    require(at == std::floor(at) && at >= least && at <= static_cast<double>(total), name, ": offsets holds ",
            at, " at index ", i, ", expected whole numbers that grow from 0 to ", total,
            ", the number of tokens");
    out.push_back(static_cast<Index>(at));
  }
  require(out.front() == 0 && out.back() == total, name, ": offsets go from ", out.front(), " to ",
          out.back(), ", expected from 0 to ", total, ", the number of tokens");
  return out;
}

// (total, ..) to (n, longest, ..), with `rest` beyond the tokens of an example.
Array padded(const Array& array, const std::vector<Index>& offsets, Index longest, double rest,
             const std::string& label) {
  require(array.rank() >= 1 && array.rank() <= 2 && array.dim(0) == offsets.back(), label, " has shape ",
          format_shape(array.shape()), ", expected (", offsets.back(), ", ..): one row per token");
  const auto n = static_cast<Index>(offsets.size()) - 1;
  const Index width = array.rank() == 2 ? array.dim(1) : 1;
  std::vector<Index> shape{n, longest};
  if (array.rank() == 2) shape.push_back(width);
  Array out(DType::f64, shape);
  std::fill_n(out.data<double>(), out.size(), rest);
  for (Index i = 0; i < n; ++i) {
    const Index from = offsets[static_cast<std::size_t>(i)] * width,
                count = offsets[static_cast<std::size_t>(i) + 1] * width - from;
    for (Index j = 0; j < count; ++j) out.data<double>()[i * longest * width + j] = array.at(from + j);
  }
  return out;
}

}  // namespace

void pad_ragged(NamedArrays& arrays, const std::string& name, const Execution& execution) {
  const auto offsets = arrays.find("offsets"), x = arrays.find("X");
  if (offsets == arrays.end() || x == arrays.end() || x->second.rank() != 2) return;
  require(arrays.count("lengths") == 0, name, ": offsets and lengths given, expected one of them");
  const std::vector<Index> at = read_offsets(offsets->second, x->second.dim(0), name);
  std::vector<std::int64_t> lengths;
  for (std::size_t i = 1; i < at.size(); ++i) lengths.push_back(at[i] - at[i - 1]);
  const Index longest = *std::max_element(lengths.begin(), lengths.end());
  double columns = 0;
  for (const char* key : {"X", "Y", "observed"})
    if (const auto found = arrays.find(key); found != arrays.end() && found->second.rank() == 2)
      columns += static_cast<double>(found->second.dim(1));
  MemoryBudget(execution).require(
      8 * static_cast<double>(lengths.size()) * static_cast<double>(longest) * columns,
      join(lengths.size(), " examples of up to ", longest, " tokens"));
  for (const char* key : {"X", "Y", "observed"})
    if (const auto found = arrays.find(key); found != arrays.end())
      found->second =
          padded(found->second, at, longest, key == std::string("observed"), join(name, ": ", key));
  const auto n = static_cast<Index>(lengths.size());
  arrays["lengths"] = Array::from(lengths, {n});
}

}  // namespace headlens

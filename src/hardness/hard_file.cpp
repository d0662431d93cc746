// The label of a hard layer, beside its Theta and W.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/memory.hpp"
#include "headlens/arrays.hpp"
#include "headlens/error.hpp"
#include "headlens/hardness.hpp"

namespace headlens {
namespace {

Array number(double value) { return Array::from<double>({value}, {1}); }

std::vector<double> numbers(const NamedArrays& arrays, const std::string& key, Index count,
                            const std::string& file) {
  const auto found = arrays.find(key);
  require(found != arrays.end(), file, ": holds 'hidden', but '", key, "' is missing");
  const Array& array = found->second;
  require(array.dtype() == DType::f64 && array.rank() == 1 && array.size() == count, file, ": ", key, " is ",
          array.describe(), ", expected float64 (", count, ")");
  std::vector<double> values = array.to_doubles();
  for (const double value : values)
    require(std::isfinite(value), file, ": ", key, " holds ", value, ", expected finite values");
  return values;
}

// The label in the file must fit the layer in the file: a label of another layer would be wrong without a
// sign of it.
void require_theta_and_w(const NamedArrays& arrays, Index dim, const std::string& file) {
  for (const auto& [key, last] : {std::pair{"Theta", dim}, std::pair{"W", Index{1}}}) {
    const auto found = arrays.find(key);
    require(found != arrays.end(), file, ": holds 'hidden', but '", key, "' is missing");
    const Array& array = found->second;
    require(array.rank() == 3 && array.dim(1) == dim && array.dim(2) == last, file, ": ", key, " is ",
            array.describe(), ", but with ", dim, " hidden weights it is (m, ", dim, ", ", last, ")");
  }
}

}  // namespace

void save_hard_layer(const std::filesystem::path& path, const HardLayer& hard) {
  const HiddenLabel& label = hard.label;
  write_npz(path, {{"Theta", hard.layer.theta},
                   {"W", hard.layer.w},
                   {"hidden", Array::from(label.weights, {label.dim()})},
                   {"label_steps", Array::from(label.steps, {static_cast<Index>(label.steps.size())})},
                   {"label_at_rest", number(label.at_rest)},
                   {"label_tolerance", number(label.tolerance)},
                   {"sharpness", number(label.sharpness)}});
}

std::optional<HiddenLabel> load_label(const std::filesystem::path& path, const Execution& execution) {
  const NamedArrays arrays = read_npz(path, MemoryBudget(execution).limit_bytes());
  const auto found = arrays.find("hidden");
  if (found == arrays.end()) return std::nullopt;
  const std::string file = path.string();
  const Array& hidden = found->second;
  require(hidden.dtype() == DType::i64 && hidden.rank() == 1 && hidden.size() >= 2, file, ": hidden is ",
          hidden.describe(), ", expected int64 (d)");
  HiddenLabel label;
  Index reach = 0;
  for (Index j = 0; j < hidden.size(); ++j) {
    const std::int64_t u = hidden.data<std::int64_t>()[j];
    require(std::abs(static_cast<double>(u)) <= 1e6, file, ": hidden holds ", u, ", expected small integers");
    label.weights.push_back(u);
    reach += std::abs(u);
  }
  require(
      label.weights[0] == 0 && reach >= 1, file,
      ": hidden is expected to hold 0 for the control, its first entry, and a number other than 0 elsewhere");
  label.steps = numbers(arrays, "label_steps", 2 * reach + 1, file);
  label.at_rest = numbers(arrays, "label_at_rest", 1, file)[0];
  label.tolerance = numbers(arrays, "label_tolerance", 1, file)[0];
  label.sharpness = numbers(arrays, "sharpness", 1, file)[0];
  require_theta_and_w(arrays, hidden.size(), file);
  return label;
}

}  // namespace headlens

// Matching of heads and checks of weights: JSON and words, as the program prints them.
#include "headlens/match.hpp"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "arrays.hpp"
#include "bindings.hpp"
#include "call.hpp"
#include "headlens/check.hpp"

namespace headlens::python {
namespace {

NamedArrays to_tensors(const nb::dict& tensors) {
  NamedArrays out;
  for (const auto [key, value] : tensors) out[nb::cast<std::string>(key)] = borrow(nb::cast<AnyArray>(value));
  return out;
}

HeadsSource source_of(const WeightsOptions& weights, bool all_layers,
                      const std::optional<std::string>& rotary) {
  HeadsSource out{.weights = weights, .all_layers = all_layers};
  if (rotary) out.rotary = read_rotary(*rotary);
  return out;
}

nb::dict tensors_of_file(const std::filesystem::path& path, const Settings& settings) {
  const NamedArrays found = call(settings, [&](const Execution& e) { return load_tensors(path, e); });
  nb::dict out;
  for (const auto& [name, array] : found) out[name.c_str()] = to_numpy(array);
  return out;
}

nb::tuple match(const nb::dict& a, const WeightsOptions& weights_a, const nb::dict& b,
                const WeightsOptions& weights_b, bool all_layers, bool across,
                const std::optional<std::string>& rotary, const Settings& settings) {
  NamedArrays first = to_tensors(a), second = to_tensors(b);
  const Match found = call(settings, [&](const Execution& e) {
    return match_heads(find_heads(std::move(first), source_of(weights_a, all_layers, rotary), "a", e),
                       find_heads(std::move(second), source_of(weights_b, all_layers, rotary), "b", e),
                       {.across = across}, e);
  });
  return nb::make_tuple(to_json(found), in_words(found));
}

nb::tuple check(const nb::dict& tensors, const WeightsOptions& weights, const AnyArray& x, const AnyArray& y,
                const std::optional<AnyArray>& lengths, const std::optional<std::string>& rotary,
                const CheckOptions& options, const Settings& settings) {
  NamedArrays found = to_tensors(tensors);
  const Array tokens = borrow(x), labels = borrow(y);
  const std::optional<Array> counts = lengths ? std::optional(borrow(*lengths)) : std::nullopt;
  const Check result = call(settings, [&](const Execution& e) {
    return check_tensors(std::move(found), source_of(weights, false, rotary),
                         make_check_examples(tokens, labels, counts), options, "weights", e);
  });
  return nb::make_tuple(to_json(result), in_words(result));
}

}  // namespace

void bind_match(nb::module_& m) {
  m.def("load_tensors", &tensors_of_file, nb::arg("path"), nb::arg("settings"));
  m.def("match", &match, nb::arg("a"), nb::arg("weights_a"), nb::arg("b"), nb::arg("weights_b"),
        nb::arg("all_layers"), nb::arg("across"), nb::arg("rotary").none(), nb::arg("settings"));
  m.def("check", &check, nb::arg("tensors"), nb::arg("weights"), nb::arg("x"), nb::arg("y"),
        nb::arg("lengths").none(), nb::arg("rotary").none(), nb::arg("options"), nb::arg("settings"));
}

}  // namespace headlens::python

// Matching of heads and checks of weights: JSON and words, as the program prints them.
#include "headlens/match.hpp"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "arrays.hpp"
#include "bindings.hpp"
#include "call.hpp"
#include "headlens/check.hpp"
#include "headlens/layer_report.hpp"
#include "tensors.hpp"

namespace headlens::python {
namespace {

nb::dict tensors_of_file(const std::filesystem::path& path, const Settings& settings) {
  const NamedArrays found = call(settings, [&](const Execution& e) { return load_tensors(path, e); });
  return to_dict(found);
}

nb::tuple match(const nb::dict& a, const WeightsOptions& weights_a, const nb::dict& b,
                const WeightsOptions& weights_b, bool all_layers, bool across,
                const std::optional<std::string>& rotary, const std::optional<std::filesystem::path>& report,
                const Settings& settings) {
  NamedArrays first = to_tensors(a), second = to_tensors(b);
  const Match found = call(settings, [&](const Execution& e) {
    if (report) check_report_folder(*report);
    const std::vector<LayerHeads> of_a = find_heads(std::move(first),
                                                    source_of(weights_a, all_layers, rotary), "a", e),
                                  of_b = find_heads(std::move(second),
                                                    source_of(weights_b, all_layers, rotary), "b", e);
    Match out = match_heads(of_a, of_b, {.across = across}, e);
    if (report) write_report(out, of_a, of_b, *report, e);
    return out;
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
        nb::arg("all_layers"), nb::arg("across"), nb::arg("rotary").none(), nb::arg("report").none(),
        nb::arg("settings"));
  m.def("check", &check, nb::arg("tensors"), nb::arg("weights"), nb::arg("x"), nb::arg("y"),
        nb::arg("lengths").none(), nb::arg("rotary").none(), nb::arg("options"), nb::arg("settings"));
}

}  // namespace headlens::python

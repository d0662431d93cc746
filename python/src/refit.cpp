// Refits: JSON and words as the program prints them, and tensors.
#include "headlens/refit.hpp"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "arrays.hpp"
#include "bindings.hpp"
#include "call.hpp"
#include "headlens/layer_report.hpp"
#include "tensors.hpp"

namespace headlens::python {
namespace {

using Folder = std::optional<std::filesystem::path>;

Refit refit_layer(const nb::dict& tensors, const WeightsOptions& weights, const std::optional<AnyArray>& x,
                  const std::optional<AnyArray>& lengths, const std::optional<std::string>& rotary,
                  const RefitOptions& options, const RefitInputs& inputs, const Folder& report,
                  const Settings& settings) {
  NamedArrays found = to_tensors(tensors);
  const Array given = x ? borrow(*x) : Array(), counts = lengths ? borrow(*lengths) : Array();
  return call(settings, [&](const Execution& e) {
    if (report) check_report_folder(*report);
    const LayerHeads layer =
        find_heads(std::move(found), source_of(weights, false, rotary), "layer", e).front();
    const Tokens tokens =
        x ? make_tokens(given, counts, "tokens") : draw_tokens(layer.dim(), inputs, options.seed);
    Refit out = refit(layer, tokens, options, e);
    if (report) write_report(out, tokens, *report, e);
    return out;
  });
}

Refit refit_examples(const AnyArray& x, const AnyArray& y, const std::optional<AnyArray>& lengths,
                     const RefitOptions& options, const Folder& report, const Settings& settings) {
  const Array tokens = borrow(x), labels = borrow(y), own = lengths ? borrow(*lengths) : Array();
  return call(settings, [&](const Execution& e) {
    if (report) check_report_folder(*report);
    const Examples examples = lengths ? make_examples(tokens, labels, own) : make_examples(tokens, labels);
    Refit out = refit(examples, options, e);
    if (report) write_report(out, {examples.x, examples.lengths}, *report, e);
    return out;
  });
}

nb::dict export_tensors(const Refit& refit, const nb::dict& like, const WeightsOptions& weights,
                        const Settings& settings) {
  NamedArrays tensors = to_tensors(like);
  return to_dict(call(
      settings, [&](const Execution&) { return export_refit(refit, std::move(tensors), weights, "like"); }));
}

nb::dict tensors_of_refit(const Refit& refit) { return to_dict(tensors_of(refit)); }

}  // namespace

void bind_refit(nb::module_& m) {
  m.def("refit_layer", &refit_layer, nb::arg("tensors"), nb::arg("weights"), nb::arg("x").none(),
        nb::arg("lengths").none(), nb::arg("rotary").none(), nb::arg("options"), nb::arg("inputs"),
        nb::arg("report").none(), nb::arg("settings"));
  m.def("refit_examples", &refit_examples, nb::arg("x"), nb::arg("y"), nb::arg("lengths").none(),
        nb::arg("options"), nb::arg("report").none(), nb::arg("settings"));
  m.def("export_refit", &export_tensors, nb::arg("refit"), nb::arg("like"), nb::arg("weights"),
        nb::arg("settings"));
  nb::class_<Refit>(m, "Refit")
      .def_prop_ro("json", [](const Refit& refit) { return to_json(refit); })
      .def_prop_ro("words", [](const Refit& refit) { return in_words(refit); })
      .def_prop_ro("tensors", &tensors_of_refit);
}

}  // namespace headlens::python

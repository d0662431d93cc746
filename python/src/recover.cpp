// Recovery: the layer, and the certificate as the JSON of `headlens recover --json`.
#include "headlens/certificate.hpp"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "arrays.hpp"
#include "bindings.hpp"
#include "call.hpp"
#include "headlens/layer_report.hpp"

namespace headlens::python {
namespace {

nb::tuple recover_layer(const AnyArray& x, const AnyArray& y, const std::optional<AnyArray>& lengths,
                        const RecoverOptions& options, const std::optional<std::filesystem::path>& report,
                        const Settings& settings) {
  const Array tokens = borrow(x), labels = borrow(y), own = lengths ? borrow(*lengths) : Array();
  Recovery result = call(settings, [&](const Execution& execution) {
    options.validate();
    if (report) check_report_folder(*report);
    const Examples examples = make_partial_examples(tokens, labels, own, Array());
    Recovery out = recover(examples, options, execution);
    if (report) write_report(out, examples, *report, execution);
    return out;
  });
  // A layer of any size is Theta and W here.
  if (!result.layer && result.factors) result.layer = multiply_out(*result.factors);
  if (!result.best && result.best_factors) result.best = multiply_out(*result.best_factors);
  const nb::object layer = result.layer ? nb::cast(std::move(*result.layer)) : nb::none();
  const nb::object best = result.best ? nb::cast(std::move(*result.best)) : nb::none();
  const nb::object span = result.sculpt_span ? to_numpy(std::move(*result.sculpt_span)) : nb::none();
  return nb::make_tuple(layer, to_json(result.certificate), span, best,
                        result.certificate.advice.spelled(in_python),
                        in_words(result.certificate, in_python));
}

}  // namespace

void bind_recover(nb::module_& m) {
  m.def("recover", &recover_layer, nb::arg("x"), nb::arg("y"), nb::arg("lengths").none(), nb::arg("options"),
        nb::arg("report").none(), nb::arg("settings"));
}

}  // namespace headlens::python

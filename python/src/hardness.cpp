// Hard layers with their labels, and Fourier coefficients, in the words of `headlens inspect --json`.
#include "headlens/hardness.hpp"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>

#include "arrays.hpp"
#include "bindings.hpp"
#include "call.hpp"
#include "headlens/fourier.hpp"

namespace headlens::python {
namespace {

struct HardExampleOptions : ExampleOptions {
  double flips = 0;
};

nb::tuple hard_examples(const AttentionLayer& layer, const HiddenLabel& label,
                        const HardExampleOptions& options, const Settings& settings) {
  const Examples drawn = call(settings, [&](const Execution& e) {
    options.validate();
    return draw_hard_examples({layer, label}, options, options.flips, e);
  });
  return nb::make_tuple(to_numpy(drawn.x), to_numpy(drawn.y));
}

// (n, 2, 1), as the layer's outputs are.
nb::object label_of(const HiddenLabel& label, const AnyArray& tokens) {
  const Array x = borrow(tokens);
  const Index d = label.dim();
  require(x.rank() == 3 && x.dim(1) == 2 && x.dim(2) == d, "X: shape ", format_shape(x.shape()),
          ", expected (n, 2, ", d, ")");
  const double* values = x.data<double>();
  for (Index i = 0; i < x.size(); ++i)
    require(std::abs(values[i]) == 1, "X: it holds ", values[i], ", but the label is one of signs");
  Array out(DType::f64, {x.dim(0), 2, 1});
  for (Index i = 0; i < x.dim(0); ++i) {
    const double *first = values + i * 2 * d, *second = first + d;
    out.data<double>()[2 * i] = label(first, second);
    out.data<double>()[2 * i + 1] = label(second, first);
  }
  return to_numpy(std::move(out));
}

// Squares of estimates add up to the squares of their errors, so samples have no weight.
nb::list level_list(const Fourier& fourier, Index dim, FourierPart part) {
  nb::list out;
  for (const FourierLevel& level : fourier_levels(fourier, dim, part)) {
    nb::dict entry;
    entry["degree"] = level.degree;
    entry["count"] = level.count;
    entry["largest"] = level.largest;
    entry["weight"] = fourier.exact ? nb::object(nb::float_(level.weight)) : nb::object(nb::none());
    out.append(entry);
  }
  return out;
}

nb::dict fourier(const AttentionLayer& layer, const FourierOptions& options, bool hard,
                 const Settings& settings) {
  const Fourier found =
      call(settings, [&](const Execution& e) { return fourier_coefficients(layer, options, e); });
  const Index d = layer.dim();
  nb::dict out;
  out["exact"] = found.exact;
  out["subsets"] = to_numpy(found.subsets);
  out["values"] = to_numpy(found.values);
  out["half_widths"] = found.half_widths;
  out["levels"] = level_list(found, d, FourierPart::everything);
  out["hidden_levels"] =
      hard ? nb::object(level_list(found, d, FourierPart::hidden)) : nb::object(nb::none());
  return out;
}

}  // namespace

void bind_hardness(nb::module_& m) {
  nb::class_<HardExampleOptions, ExampleOptions>(m, "HardExampleOptions")
      .def(nb::init<>())
      .def_rw("flips", &HardExampleOptions::flips);
  using L = HiddenLabel;
  nb::class_<L>(m, "HiddenLabel")
      .def(nb::init<>())
      .def_rw("weights", &L::weights)
      .def_rw("steps", &L::steps)
      .def_rw("at_rest", &L::at_rest)
      .def_rw("sharpness", &L::sharpness)
      .def_rw("tolerance", &L::tolerance)
      .def_prop_ro("sq_dimension", &sq_dimension)
      .def("evaluate", &label_of, nb::arg("x"));
  m.def(
      "draw_hard_layer",
      [](const HardOptions& options) {
        HardLayer hard = draw_hard_layer(options);
        return nb::make_tuple(std::move(hard.layer), std::move(hard.label));
      },
      nb::arg("options"));
  m.def("draw_hard_examples", &hard_examples, nb::arg("layer"), nb::arg("label"), nb::arg("options"),
        nb::arg("settings"));
  m.def(
      "save_hard_layer",
      [](const std::filesystem::path& path, const AttentionLayer& layer, const HiddenLabel& label) {
        save_hard_layer(path, {layer, label});
      },
      nb::arg("path"), nb::arg("layer"), nb::arg("label"), nb::call_guard<nb::gil_scoped_release>());
  m.def(
      "load_label",
      [](const std::filesystem::path& path, const Settings& settings) {
        return call(settings, [&](const Execution& e) { return load_label(path, e); });
      },
      nb::arg("path"), nb::arg("settings"));
  m.def("fourier", &fourier, nb::arg("layer"), nb::arg("options"), nb::arg("hard"), nb::arg("settings"));
}

}  // namespace headlens::python

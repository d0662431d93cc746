// Models that choose everything themselves: fit, predict, uncertainty, files, and the state that pickle
// keeps.
#include "headlens/automatic.hpp"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "arrays.hpp"
#include "bindings.hpp"
#include "call.hpp"

namespace headlens::python {
namespace {

nb::dict member_dict(const AutomaticMember& member) {
  nb::list blocks;
  for (const SetBlockInfo& block : member.blocks)
    blocks.append(nb::make_tuple(name(block.kind), block.parameter, block.scale));
  nb::dict out;
  out["kernel"] = describe(member);
  out["gamma"] = member.relative_gamma;
  out["penalty"] = member.penalty;
  out["error"] = member.loo_error;
  out["weight"] = member.weight;
  out["blocks"] = blocks;
  return out;
}

nb::list member_dicts(const std::vector<AutomaticMember>& members) {
  nb::list out;
  for (const AutomaticMember& member : members) out.append(member_dict(member));
  return out;
}

nb::dict report_dict(const AutomaticModel& model) {
  nb::dict out;
  out["status"] = "solved";
  out["model"] = "auto";
  out["task"] = model.is_classifier() ? "classification" : "regression";
  out["n"] = model.count;
  out["kept"] = model.support.query.dim(0);
  out["query"] = model.frame.given_query ? "given" : "zero";
  out["tokens"] = model.frame.by_scores() ? "normal scores" : "values";
  out["ridge"] = model.members.front().penalty;
  out["loo_error"] = model.loo_error;
  if (model.loo_accuracy) out["loo_accuracy"] = *model.loo_accuracy;
  out["members"] = member_dicts(model.members);
  return out;
}

nb::tuple fit_model(const Sets& sets, const AnyArray& y, std::uint64_t seed, const Settings& settings) {
  const Array targets = borrow(y);
  AutomaticFit result = call(settings, [&](const Execution& execution) {
    return fit_automatic({sets, make_targets(targets, sets)}, seed, execution);
  });
  nb::dict report = report_dict(result.model);
  report["screened"] = result.screened;
  report["trials"] = member_dicts(result.trials);
  report["other_tokens_error"] =
      result.other_tokens_error ? nb::cast(*result.other_tokens_error) : nb::none();
  report["seconds"] = result.seconds;
  return nb::make_tuple(nb::cast(std::move(result.model)), report);
}

template <Array (*function)(const AutomaticModel&, const Sets&, const Execution&)>
nb::object apply(const AutomaticModel& model, const Sets& sets, const Settings& settings) {
  return to_numpy(call(settings, [&](const Execution& e) { return function(model, sets, e); }));
}

nb::dict get_state(const AutomaticModel& model) {
  const TensorFile file = tensors_of(model);
  nb::dict tensors, state;
  for (const auto& [key, value] : file.tensors) tensors[key.c_str()] = to_numpy_view(value);
  state["tensors"] = tensors;
  state["metadata"] = file.metadata;
  return state;
}

void set_state(AutomaticModel& out, const nb::dict& state) {
  TensorFile file;
  file.metadata = nb::cast<std::map<std::string, std::string>>(state["metadata"]);
  for (const auto& [key, value] : nb::cast<nb::dict>(state["tensors"]))
    file.tensors[nb::cast<std::string>(key)] = borrow(nb::cast<AnyArray>(value));
  new (&out) AutomaticModel(automatic_model_from(std::move(file), "pickled model"));
}

}  // namespace

void bind_automatic(nb::module_& m) {
  nb::class_<AutomaticModel>(m, "AutomaticModel")
      .def("predict", &apply<predict>, nb::arg("sets"), nb::arg("settings"))
      .def("predict_scores", &apply<predict_scores>, nb::arg("sets"), nb::arg("settings"))
      .def("predict_deviation", &apply<predict_deviation>, nb::arg("sets"), nb::arg("settings"))
      .def("features", &apply<compute_features>, nb::arg("sets"), nb::arg("settings"))
      .def("interval_factors", &interval_factors, nb::arg("coverage"))
      .def("report", &report_dict)
      .def(
          "save",
          [](const AutomaticModel& model, const std::filesystem::path& path) { save_model(path, model); },
          nb::arg("path"), nb::call_guard<nb::gil_scoped_release>())
      .def("__getstate__", &get_state)
      .def("__setstate__", &set_state)
      .def_ro("dim", &AutomaticModel::dim)
      .def_ro("sequence", &AutomaticModel::sequence)
      .def_ro("classes", &AutomaticModel::classes)
      .def_ro("slope", &AutomaticModel::slope)
      .def_ro("seed", &AutomaticModel::seed)
      .def_rw("notes", &AutomaticModel::notes);
  m.def("fit_automatic", &fit_model, nb::arg("sets"), nb::arg("y"), nb::arg("seed"), nb::arg("settings"));
  m.def("is_automatic_model", &is_automatic_model, nb::arg("path"));
  m.def(
      "load_automatic_model",
      [](const std::filesystem::path& path, const Settings& settings) {
        return call(settings, [&](const Execution& e) { return load_automatic_model(path, e); });
      },
      nb::arg("path"), nb::arg("settings"));
}

}  // namespace headlens::python

// Fitted models: fit, predict, features, files, and the state that pickle keeps.
#include "headlens/model.hpp"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "arrays.hpp"
#include "bindings.hpp"
#include "call.hpp"
#include "headlens/fit.hpp"

namespace headlens::python {
namespace {

nb::dict report_dict(const FitReport& r) {
  nb::list trials;
  for (const RidgeTrial& trial : r.trials) trials.append(nb::make_tuple(trial.ridge, trial.error));
  nb::dict out;
  out["status"] = name(r.status);
  out["solver"] = name(r.solver);
  out["method"] = r.method;
  out["backend"] = r.backend;
  out["ridge"] = r.ridge;
  out["ridge_rule"] = r.ridge_rule;
  out["trials"] = trials;
  out["train_loss"] = r.train_loss;
  out["residual"] = r.residual;
  out["score_digits"] = r.score_digits;
  out["iterations"] = r.iterations;
  out["predicted_peak_bytes"] = r.predicted_peak_bytes;
  out["seconds"] = r.seconds;
  return out;
}

nb::tuple fit_model(const Sets& sets, const AnyArray& y, const FitOptions& options,
                    const Settings& settings) {
  const Array targets = borrow(y);
  Fit result = call(settings, [&](const Execution& execution) {
    return fit({sets, make_targets(targets, sets)}, options, execution);
  });
  const nb::dict report = report_dict(result.report);
  return nb::make_tuple(nb::cast(std::move(result.model)), report);
}

template <Array (*function)(const Model&, const Sets&, const Execution&)>
nb::object apply(const Model& model, const Sets& sets, const Settings& settings) {
  return to_numpy_or_device(call(settings, [&](const Execution& e) { return function(model, sets, e); }));
}

// Everything a model holds, as Python sees it.
nb::dict get_state(const Model& model) {
  const FeatureOptions& f = model.features;
  nb::dict state;
  state["model"] = name(f.kind);
  state["heads"] = f.heads;
  state["bias_scale"] = f.bias_scale.value();
  state["weight_scale"] = f.weight_scale.value();
  state["score"] = name(f.score);
  state["positions"] = name(f.positions);
  state["precision"] = name(f.precision);
  state["seed"] = f.seed;
  if (f.head_rank) state["head_rank"] = *f.head_rank;
  if (f.mean) state["mean"] = to_numpy_view(*f.mean);
  state["loss"] = name(model.loss);
  state["dim"] = model.dim;
  state["keys"] = model.keys;
  state["outputs"] = model.outputs;
  state["vector_targets"] = model.vector_targets;
  state["sequence"] = model.sequence;
  state["classes"] = model.classes;
  state["report"] = model.report;
  state["values"] = to_numpy_view(model.values);
  state["intercept"] = to_numpy_view(model.intercept);
  if (f.infinite()) {
    state["support_query"] = to_numpy_view(model.support.query);
    state["support_keys"] = to_numpy_view(model.support.keys);
    state["support_offsets"] = model.support.offsets;
  } else {
    state["head_weights"] = to_numpy_view(model.heads);
  }
  return state;
}

template <class T>
T item(const nb::dict& state, const char* key) {
  return nb::cast<T>(state[key]);
}

Array array_item(const nb::dict& state, const char* key) { return borrow(item<AnyArray>(state, key)); }

void set_state(Model& out, const nb::dict& state) {
  Model model;
  FeatureOptions& f = model.features;
  f.kind = parse<ModelKind>(item<std::string>(state, "model"));
  f.heads = item<Index>(state, "heads");
  f.bias_scale = item<double>(state, "bias_scale");
  f.weight_scale = item<double>(state, "weight_scale");
  f.score = parse<Score>(item<std::string>(state, "score"));
  f.positions = parse<Positions>(item<std::string>(state, "positions"));
  f.precision = parse<Precision>(item<std::string>(state, "precision"));
  f.seed = item<std::uint64_t>(state, "seed");
  if (state.contains("head_rank")) f.head_rank = item<Index>(state, "head_rank");
  if (state.contains("mean")) f.mean = array_item(state, "mean");
  model.loss = parse<Loss>(item<std::string>(state, "loss"));
  model.dim = item<Index>(state, "dim");
  model.keys = item<Index>(state, "keys");
  model.outputs = item<Index>(state, "outputs");
  model.vector_targets = item<bool>(state, "vector_targets");
  model.sequence = item<bool>(state, "sequence");
  model.classes = item<std::vector<std::int64_t>>(state, "classes");
  model.report = item<std::map<std::string, std::string>>(state, "report");
  model.values = array_item(state, "values");
  model.intercept = array_item(state, "intercept");
  if (f.infinite()) {
    model.support = {array_item(state, "support_query"), array_item(state, "support_keys"),
                     item<std::vector<std::int64_t>>(state, "support_offsets")};
  } else {
    model.heads = array_item(state, "head_weights");
  }
  new (&out) Model(std::move(model));
}

}  // namespace

void bind_model(nb::module_& m) {
  nb::class_<Model>(m, "Model")
      .def("predict", &apply<predict>, nb::arg("sets"), nb::arg("settings"))
      .def("predict_scores", &apply<predict_scores>, nb::arg("sets"), nb::arg("settings"))
      .def("features", &apply<compute_features>, nb::arg("sets"), nb::arg("settings"))
      .def(
          "save", [](const Model& model, const std::filesystem::path& path) { save_model(path, model); },
          nb::arg("path"), nb::call_guard<nb::gil_scoped_release>())
      .def("__getstate__", &get_state)
      .def("__setstate__", &set_state)
      .def_rw("report", &Model::report);
  m.def("fit", &fit_model, nb::arg("sets"), nb::arg("y"), nb::arg("options"), nb::arg("settings"));
  m.def(
      "load_model",
      [](const std::filesystem::path& path, const Settings& settings) {
        return call(settings, [&](const Execution& e) { return load_model(path, e); });
      },
      nb::arg("path"), nb::arg("settings"));
}

}  // namespace headlens::python

// The options of the library, word for word: an attribute for each member, words for enumerations.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "arrays.hpp"
#include "bindings.hpp"
#include "headlens/fit.hpp"
#include "headlens/inspect.hpp"
#include "headlens/kernel.hpp"
#include "headlens/recover.hpp"
#include "headlens/study.hpp"
#include "headlens/tasks.hpp"
#include "headlens/theory.hpp"

namespace headlens::python {
namespace {

// An enumeration whose words parse() knows.
template <class Options, class Enum>
void word(nb::class_<Options>& type, const char* key, Enum Options::*member) {
  type.def_prop_rw(
      key, [member](const Options& o) { return name(o.*member); },
      [member](Options& o, const std::string& text) { o.*member = parse<Enum>(text); });
}

// Any other, of `count` values.
template <class Options, class Enum>
void word(nb::class_<Options>& type, const char* key, Enum Options::*member, int count) {
  type.def_prop_rw(
      key, [member](const Options& o) { return name(o.*member); },
      [member, key, count](Options& o, const std::string& text) {
        o.*member = choose<Enum>(key, text, count);
      });
}

void bind_features(nb::module_& m) {
  using O = FeatureOptions;
  nb::class_<O> type(m, "FeatureOptions");
  type.def(nb::init<>())
      .def_rw("heads", &O::heads)
      .def_rw("bias_scale", &O::bias_scale, nb::for_setter(nb::arg("value").none()))
      .def_rw("weight_scale", &O::weight_scale, nb::for_setter(nb::arg("value").none()))
      .def_rw("seed", &O::seed)
      .def_rw("head_rank", &O::head_rank, nb::for_setter(nb::arg("value").none()))
      .def_prop_rw(
          "mean",
          [](const O& o) -> nb::object { return o.mean ? to_numpy_view(*o.mean) : nb::object(nb::none()); },
          [](O& o, const std::optional<AnyArray>& value) {
            o.mean = value ? std::optional(borrow(*value)) : std::nullopt;
          },
          nb::for_setter(nb::arg("value").none()))
      .def_prop_ro("infinite", &O::infinite)
      .def("validate", &O::validate);
  word(type, "model", &O::kind);
  word(type, "score", &O::score);
  word(type, "positions", &O::positions);
  word(type, "precision", &O::precision);
  m.attr("INFINITE_HEADS") = kInfiniteHeads;
}

void bind_fit(nb::module_& m) {
  using O = FitOptions;
  nb::class_<O> type(m, "FitOptions");
  type.def(nb::init<>())
      .def_rw("features", &O::features)
      .def_rw("ridge", &O::ridge, nb::for_setter(nb::arg("value").none()))
      .def_rw("huber_delta", &O::huber_delta)
      .def_rw("intercept", &O::intercept)
      .def_rw("centres", &O::centres, nb::for_setter(nb::arg("value").none()))
      .def_rw("block_sets", &O::block_sets)
      .def_prop_rw(
          "norm_ball",
          [](const O& o) {
            using Pair = std::pair<double, double>;
            return o.norm_ball ? std::optional<Pair>({o.norm_ball->k1, o.norm_ball->k2}) : std::nullopt;
          },
          [](O& o, const std::optional<std::pair<double, double>>& k) {
            o.norm_ball = k ? std::optional(NormBall{k->first, k->second}) : std::nullopt;
          },
          nb::for_setter(nb::arg("value").none()))
      .def("validate", &O::validate);
  word(type, "loss", &O::loss);
  word(type, "solver", &O::solver, 4);
}

void bind_tasks(nb::module_& m) {
  using O = TaskOptions;
  nb::class_<O> type(m, "TaskOptions");
  type.def(nb::init<>())
      .def_rw("dim", &O::dim)
      .def_rw("min_keys", &O::min_keys)
      .def_rw("max_keys", &O::max_keys)
      .def_rw("count", &O::count)
      .def_rw("degree", &O::degree)
      .def_rw("pure", &O::pure)
      .def_rw("weight", &O::weight)
      .def_rw("noise", &O::noise)
      .def_rw("seed", &O::seed)
      .def_rw("target_seed", &O::target_seed);
  word(type, "task", &O::task, 6);
  word(type, "matrix", &O::matrix, 3);
  word(type, "precision", &O::precision);

  using T = TheoryOptions;
  nb::class_<T> theory(m, "TheoryOptions");
  theory.def(nb::init<>())
      .def_rw("task", &T::task)
      .def_rw("samples", &T::samples)
      .def_rw("heads", &T::heads)
      .def_rw("error", &T::error, nb::for_setter(nb::arg("value").none()))
      .def_rw("bias_scale", &T::bias_scale, nb::for_setter(nb::arg("value").none()));
  word(theory, "model", &T::model);
}

void bind_recovery(nb::module_& m) {
  nb::class_<SculptOptions> sculpt(m, "SculptOptions");
  sculpt.def(nb::init<>());
  word(sculpt, "form", &SculptOptions::form, 2);
  word(sculpt, "span", &SculptOptions::span, 2);
  sculpt.def_rw("polish", &SculptOptions::polish);

  using O = RecoverOptions;
  nb::class_<O> type(m, "RecoverOptions");
  type.def(nb::init<>())
      .def_rw("sculpt", &O::sculpt)
      .def_rw("heads", &O::heads, nb::for_setter(nb::arg("value").none()))
      .def_rw("max_heads", &O::max_heads)
      .def_rw("starts", &O::starts)
      .def_rw("steps", &O::steps)
      .def_rw("best_fit", &O::best_fit)
      .def_rw("seed", &O::seed)
      .def_rw("time_limit", &O::time_limit_seconds, nb::for_setter(nb::arg("value").none()));
  word(type, "method", &O::method, 6);
  word(type, "start", &O::start, 2);
}

void bind_layers(nb::module_& m) {
  using T = TeacherOptions;
  nb::class_<T>(m, "TeacherOptions")
      .def(nb::init<>())
      .def_rw("heads", &T::heads)
      .def_rw("dim", &T::dim)
      .def_rw("outputs", &T::outputs)
      .def_rw("scale", &T::scale)
      .def_rw("rank", &T::rank)
      .def_rw("seed", &T::seed);
  using E = ExampleOptions;
  nb::class_<E> examples(m, "ExampleOptions");
  examples.def(nb::init<>())
      .def_rw("count", &E::count)
      .def_rw("tokens", &E::tokens)
      .def_rw("noise", &E::noise)
      .def_rw("seed", &E::seed);
  word(examples, "inputs", &E::inputs, 2);
  using I = InspectOptions;
  nb::class_<I>(m, "InspectOptions")
      .def(nb::init<>())
      .def_rw("tokens", &I::tokens)
      .def_rw("samples", &I::samples)
      .def_rw("seed", &I::seed);
  using W = WeightsOptions;
  nb::class_<W> weights(m, "WeightsOptions");
  weights.def(nb::init<>())
      .def_rw("heads", &W::heads)
      .def_rw("prefix", &W::prefix)
      .def_rw("layer", &W::layer, nb::for_setter(nb::arg("value").none()))
      .def_rw("restrict_dim", &W::restrict_dim);
  word(weights, "format", &W::format, 4);
}

}  // namespace

void bind_options(nb::module_& m) {
  bind_features(m);
  bind_fit(m);
  bind_tasks(m);
  bind_recovery(m);
  bind_layers(m);
  using K = KernelOptions;
  nb::class_<K>(m, "KernelOptions")
      .def(nb::init<>())
      .def_rw("features", &K::features)
      .def_rw("exact", &K::exact);
  using R = RunOptions;
  nb::class_<R>(m, "RunOptions")
      .def(nb::init<>())
      .def_rw("jobs", &R::jobs)
      .def_rw("retry_failed", &R::retry_failed)
      .def_rw("command_line", &R::command_line);
}

}  // namespace headlens::python

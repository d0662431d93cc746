// The options of the library, from its tables: an attribute for each, words for enumerations.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "arrays.hpp"
#include "bindings.hpp"
#include "call.hpp"
#include "headlens/check.hpp"
#include "headlens/fit.hpp"
#include "headlens/fourier.hpp"
#include "headlens/hardness.hpp"
#include "headlens/inspect.hpp"
#include "headlens/kernel.hpp"
#include "headlens/options.hpp"
#include "headlens/recover.hpp"
#include "headlens/refit.hpp"
#include "headlens/study.hpp"
#include "headlens/tasks.hpp"
#include "headlens/theory.hpp"

namespace headlens::python {
namespace {

std::string attribute(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

template <class Options>
struct Bind {
  nb::class_<Options>& type;
  const Option<Options>& option;
  std::string key;

  void operator()(std::monostate) const {}
  template <class T>
  void operator()(T Options::*member) const {
    type.def_rw(key.c_str(), member);
  }
  template <class T>
  void operator()(std::optional<T> Options::*member) const {
    type.def_rw(key.c_str(), member, nb::for_setter(nb::arg("value").none()));
  }
  void operator()(std::optional<NormBall> Options::*member) const {
    using Pair = std::optional<std::pair<double, double>>;
    type.def_prop_rw(
        key.c_str(),
        [member](const Options& o) {
          const auto& ball = o.*member;
          return ball ? Pair({ball->k1, ball->k2}) : std::nullopt;
        },
        [member](Options& o, const Pair& k) {
          o.*member = k ? std::optional(NormBall{k->first, k->second}) : std::nullopt;
        },
        nb::for_setter(nb::arg("value").none()));
  }
  void operator()(std::optional<Array> Options::*member) const {
    type.def_prop_rw(
        key.c_str(),
        [member](const Options& o) -> nb::object {
          return o.*member ? to_numpy_view(*(o.*member)) : nb::object(nb::none());
        },
        [member](Options& o, const std::optional<AnyArray>& value) {
          o.*member = value ? std::optional(borrow(*value)) : std::nullopt;
        },
        nb::for_setter(nb::arg("value").none()));
  }
  void operator()(const Choice<Options>&) const {
    type.def_prop_rw(
        key.c_str(), [&row = option](const Options& o) { return option_text(o, row); },
        [&row = option](Options& o, const std::string& text) { set_option(o, row, text); });
  }
};

const char* kind_name(OptionKind kind) {
  constexpr const char* names[] = {"whole", "real", "word", "flag", "pair", "list", "matrix"};
  return names[static_cast<int>(kind)];
}

// What signatures, docstrings and messages of the package are compared with or made from.
nb::dict described(const OptionInfo& info) {
  nb::dict out;
  out["kind"] = kind_name(info.kind);
  out["help"] = info.help.spelled(in_python);
  out["shown"] = info.shown;
  out["choices"] = info.choices;
  out["nothing"] = info.nothing;
  out["unset"] = info.unset;
  out["default"] = info.fallback;
  return out;
}

template <class Options>
nb::class_<Options> bind(nb::module_& m, nb::dict& tables, const char* name) {
  nb::class_<Options> type(m, name);
  type.def(nb::init<>());
  nb::dict table;
  for (const Option<Options>& option : options_of<Options>()) {
    const std::string key = attribute(option.info.name);
    std::visit(Bind<Options>{type, option, key}, option.member);
    table[key.c_str()] = described(option.info);
  }
  tables[name] = table;
  return type;
}

}  // namespace

void bind_options(nb::module_& m) {
  nb::dict tables;
  bind<FeatureOptions>(m, tables, "FeatureOptions")
      .def_prop_ro("infinite", &FeatureOptions::infinite)
      .def("validate", &FeatureOptions::validate);
  bind<FitOptions>(m, tables, "FitOptions")
      .def_rw("features", &FitOptions::features)
      .def("validate", &FitOptions::validate);
  bind<KernelOptions>(m, tables, "KernelOptions").def_rw("features", &KernelOptions::features);
  bind<TaskOptions>(m, tables, "TaskOptions")
      .def_rw("min_keys", &TaskOptions::min_keys)
      .def_rw("max_keys", &TaskOptions::max_keys);
  bind<TheoryOptions>(m, tables, "TheoryOptions").def_rw("task", &TheoryOptions::task);
  bind<SculptOptions>(m, tables, "SculptOptions");
  bind<RecoverOptions>(m, tables, "RecoverOptions").def_rw("sculpt", &RecoverOptions::sculpt);
  bind<TeacherOptions>(m, tables, "TeacherOptions");
  bind<ExampleOptions>(m, tables, "ExampleOptions");
  bind<HardOptions>(m, tables, "HardOptions");
  bind<FourierOptions>(m, tables, "FourierOptions");
  bind<InspectOptions>(m, tables, "InspectOptions");
  bind<WeightsOptions>(m, tables, "WeightsOptions");
  bind<CheckOptions>(m, tables, "CheckOptions");
  bind<RefitOptions>(m, tables, "RefitOptions");
  bind<RefitInputs>(m, tables, "RefitInputs");
  bind<RunOptions>(m, tables, "RunOptions").def_rw("command_line", &RunOptions::command_line);
  m.attr("OPTIONS") = tables;
  m.attr("INFINITE_HEADS") = kInfiniteHeads;
}

}  // namespace headlens::python

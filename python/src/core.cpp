// headlens._core: the public headers of headlens for Python. The package around it holds the manners.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>

#include "bindings.hpp"
#include "call.hpp"
#include "headlens/blas_core.hpp"
#include "headlens/bytes.hpp"
#include "headlens/info.hpp"

namespace headlens::python {
namespace {

PyObject* exception_for(ErrorCode code) {
  switch (code) {
    case ErrorCode::misuse:
      return PyExc_ValueError;
    case ErrorCode::environment:
      return PyExc_OSError;
    case ErrorCode::memory:
      return PyExc_MemoryError;
    case ErrorCode::interrupted:
      return PyExc_KeyboardInterrupt;
  }
  return PyExc_RuntimeError;
}

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    PyErr_SetString(exception_for(error.code()), error.text().spelled(in_python).c_str());
  } catch (const Bug& bug) {
    PyErr_SetString(PyExc_RuntimeError, bug.what());
  }
}

nb::dict info(const Settings& settings) {
  const SystemInfo found = call(settings, [](const Execution& e) { return system_info(e); });
  nb::dict out;
  out["version"] = found.version;
  out["commit"] = found.commit;
  out["compiler"] = found.compiler;
  out["blas_library"] = found.blas_library;
  out["blas_core"] = found.blas_core;
  out["blas_core_fits"] = found.blas_core_fits;
  out["simd"] = found.simd;
  out["threads"] = found.threads;
  out["free_memory_bytes"] = found.free_memory_bytes;
  out["max_memory_bytes"] = found.max_memory_bytes;
  nb::list backends;
  for (const BackendInfo& backend : found.backends) {
    nb::dict entry;
    entry["name"] = backend.name;
    entry["available"] = backend.available;
    entry["reason"] = backend.reason;
    backends.append(entry);
  }
  out["backends"] = backends;
  return out;
}

}  // namespace
}  // namespace headlens::python

NB_MODULE(_core, m) {
  using namespace headlens;
  using namespace headlens::python;
  nb::register_exception_translator(translate);
  nb::class_<Settings>(m, "Settings")
      .def(nb::init<>())
      .def_rw("threads", &Settings::threads)
      .def_rw("max_memory_bytes", &Settings::max_memory_bytes)
      .def_rw("backend", &Settings::backend)
      .def_rw("log", &Settings::log, nb::for_setter(nb::arg("log").none()))
      .def_rw("progress", &Settings::progress, nb::for_setter(nb::arg("progress").none()));
  m.def("rename_parameters", &rename_parameters);
  m.def("spell", [](const std::string& parameter) { return in_python({parameter, ""}); });
  m.def("parse_bytes", [](const std::string& text) { return parse_bytes(text); });
  m.def("blas_core_repair", &blas_core_repair);
  m.def("info", &info, nb::arg("settings"));
  m.attr("__version__") = version();
  bind_options(m);
  bind_sets(m);
  bind_model(m);
  bind_automatic(m);
  bind_layer(m);
  bind_match(m);
  bind_refit(m);
  bind_hardness(m);
  bind_recover(m);
  bind_theory(m);
  bind_study(m);
}

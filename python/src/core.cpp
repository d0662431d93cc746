// headlens._core: the public headers of headlens for Python. The package around it holds the manners.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cctype>

#include "bindings.hpp"
#include "call.hpp"
#include "headlens/blas_core.hpp"
#include "headlens/bytes.hpp"
#include "headlens/info.hpp"

namespace headlens::python {
namespace {

// The texts of the library speak of options as the command line spells them: --norm-ball is norm_ball here.
std::string in_python_words(const std::string& text) {
  std::string out;
  const auto is_letter = [](char c) { return std::islower(static_cast<unsigned char>(c)) != 0; };
  const std::size_t subject = std::min(text.find(':'), text.size());
  const bool plain = std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(subject),
                                 [&](char c) { return is_letter(c) || c == '-'; });
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool boundary = i == 0 || !std::isalnum(static_cast<unsigned char>(text[i - 1]));
    const bool option =
        boundary && text.compare(i, 2, "--") == 0 && i + 2 < text.size() && is_letter(text[i + 2]);
    if (option) {
      for (i += 2; i < text.size() && (is_letter(text[i]) || text[i] == '-'); ++i)
        out += text[i] == '-' ? '_' : text[i];
      --i;
    } else {
      out += plain && i < subject && text[i] == '-' ? '_' : text[i];
    }
  }
  return out;
}

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
    PyErr_SetString(exception_for(error.code()), in_python_words(error.what()).c_str());
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
      .def_rw("log", &Settings::log, nb::for_setter(nb::arg("log").none()))
      .def_rw("progress", &Settings::progress, nb::for_setter(nb::arg("progress").none()));
  m.def("parse_bytes", [](const std::string& text) { return parse_bytes(text); });
  m.def("blas_core_repair", &blas_core_repair);
  m.def("info", &info, nb::arg("settings"));
  m.attr("__version__") = version();
  bind_options(m);
  bind_sets(m);
  bind_model(m);
  bind_layer(m);
  bind_hardness(m);
  bind_recover(m);
  bind_theory(m);
  bind_study(m);
}

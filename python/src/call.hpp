// How the package calls the library: the interpreter released, Ctrl-C and errors of callbacks honoured.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <chrono>
#include <exception>
#include <map>

#include "headlens/error.hpp"
#include "headlens/execution.hpp"
#include "headlens/model.hpp"
#include "headlens/progress.hpp"

namespace headlens::python {

namespace nb = nanobind;

// An option as callers write it: max_heads, loss='logistic', polish=False.
std::string in_python(const Mention& mention);

// Parameters whose name is not that of their option, {"score": "score_function"}: what messages to this
// thread call them from now on. Returns the names until now.
using ParameterNames = std::map<std::string, std::string>;
ParameterNames rename_parameters(ParameterNames names);

// What Python says about a call. `log` and `progress` are callables or None.
struct Settings {
  int threads = 0;
  std::uint64_t max_memory_bytes = 0;
  std::string backend = "auto";
  nb::object log = nb::none();
  nb::object progress = nb::none();
};

// One call: hooks that enter the interpreter, at most every 50 ms, and keep what is raised there. Nothing is
// thrown through the library; it is asked to stop instead.
class Call {
 public:
  explicit Call(const Settings& settings) : settings_(settings) {
    execution_.threads = settings.threads;
    execution_.max_memory_bytes = settings.max_memory_bytes;
    execution_.backend = parse<BackendChoice>(settings.backend);
    execution_.cancelled = [this] { return cancelled(); };
    if (!settings.log.is_none()) execution_.log = [this](const Text& text) { log(text); };
    if (!settings.progress.is_none())
      execution_.progress = [this](const Progress& progress) { report(progress); };
  }

  template <class F>
  auto run(F&& f) {
    const nb::gil_scoped_release release;
    try {
      auto result = f(static_cast<const Execution&>(execution_));
      if (raised_) std::rethrow_exception(raised_);  // too late to stop it, but not to be heard
      return result;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::interrupted && raised_) std::rethrow_exception(raised_);
      throw;
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kPause{50};  // between visits; nothing computed depends on it

  // Runs `visit` in the interpreter and keeps what it throws.
  template <class F>
  void enter(F&& visit) {
    if (raised_) return;
    const nb::gil_scoped_acquire gil;
    try {
      visit();
    } catch (...) {
      raised_ = std::current_exception();
    }
  }

  bool cancelled() {
    const auto now = Clock::now();
    if (now - last_check_ >= kPause) {
      last_check_ = now;
      enter([] {
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
      });
    }
    return raised_ != nullptr;
  }

  void log(const Text& text) {
    enter([&] { settings_.log(text.spelled(in_python)); });
  }

  void report(const Progress& progress) {
    const auto now = Clock::now();
    if (now - last_report_ < kPause) return;
    last_report_ = now;
    enter([&] {
      const std::string text = describe(progress);
      settings_.progress(nb::str(text.data(), text.size()), progress.done, progress.total);
    });
  }

  const Settings& settings_;
  Execution execution_;
  std::exception_ptr raised_;
  Clock::time_point last_check_{}, last_report_{};
};

// call(settings, [&](const Execution& execution) { return fit(data, options, execution); })
template <class F>
auto call(const Settings& settings, F&& f) {
  return Call(settings).run(std::forward<F>(f));
}

}  // namespace headlens::python

// Sets of Python, synthetic sets, and kernels of sets.
#include "headlens/sets.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "arrays.hpp"
#include "bindings.hpp"
#include "call.hpp"
#include "headlens/device_memory.hpp"
#include "headlens/kernel.hpp"
#include "headlens/tasks.hpp"

namespace headlens::python {
namespace {

// The checks read every value: other threads of Python may go on meanwhile.
template <class F>
Sets checked(F&& make) {
  const nb::gil_scoped_release release;
  return make();
}

nb::tuple generated(const TaskOptions& options, const Settings& settings) {
  const LabelledSets data = call(settings, [&](const Execution& e) { return generate(options, e); });
  const Sets& sets = data.sets;
  const nb::object offsets = sets.offsets().empty() ? nb::none() : to_numpy(sets.offsets());
  // As save_sets() writes it: float32 sets have float32 targets.
  Array y(sets.query().dtype(), data.targets.shape);
  for (Index i = 0; i < y.size(); ++i) {
    const double value = data.targets.values[static_cast<std::size_t>(i)];
    if (y.dtype() == DType::f32)
      y.data<float>()[i] = static_cast<float>(value);
    else
      y.data<double>()[i] = value;
  }
  return nb::make_tuple(to_numpy(sets.query()), to_numpy(sets.keys()), offsets, to_numpy(std::move(y)));
}

nb::tuple kernel(const Sets& a, const Sets* b, const KernelOptions& options, const Settings& settings) {
  Kernel result = call(settings, [&](const Execution& e) {
    return b ? attention_kernel(a, *b, options, e) : attention_kernel(a, options, e);
  });
  const nb::object error =
      result.standard_error ? nb::float_(*result.standard_error) : nb::object(nb::none());
  return nb::make_tuple(to_numpy(std::move(result.values)), result.method, error);
}

}  // namespace

// Every layout twice: of arrays in main memory, and of arrays that lie on a device.
void bind_sets(nb::module_& m) {
  nb::class_<Array>(m, "DeviceArray").def_prop_ro("dtype", [](const Array& array) {
    return name(array.dtype());
  });
  m.def("check_cuda_device", &check_cuda_device, nb::arg("number"), nb::arg("name"));
  m.def("cuda_array", &borrow_from_cuda, nb::arg("capsule"), nb::arg("name"));
  nb::class_<Sets>(m, "Sets")
      .def_static(
          "from_arrays",
          [](const AnyArray& query, const AnyArray& keys, const std::string& name) {
            const Array q = borrow(query), k = borrow(keys);
            return checked([&] { return Sets::from_arrays(q, k, name); });
          },
          nb::arg("query"), nb::arg("keys"), nb::arg("name"))
      .def_static(
          "from_arrays",
          [](const Array& query, const Array& keys, const std::string& name) {
            return checked([&] { return Sets::from_arrays(query, keys, name); });
          },
          nb::arg("query"), nb::arg("keys"), nb::arg("name"))
      .def_static(
          "from_tokens",
          [](const AnyArray& tokens, const std::string& name) {
            const Array t = borrow(tokens);
            return checked([&] { return Sets::from_tokens(t, name); });
          },
          nb::arg("tokens"), nb::arg("name"))
      .def_static(
          "from_tokens",
          [](const Array& tokens, const std::string& name) {
            return checked([&] { return Sets::from_tokens(tokens, name); });
          },
          nb::arg("tokens"), nb::arg("name"))
      .def_static(
          "from_ragged",
          [](const AnyArray& query, const AnyArray& keys, const std::vector<std::int64_t>& offsets,
             const std::string& name) {
            const Array q = borrow(query), k = borrow(keys);
            return checked([&] { return Sets::from_ragged(q, k, offsets, name); });
          },
          nb::arg("query"), nb::arg("keys"), nb::arg("offsets"), nb::arg("name"))
      .def_static(
          "from_ragged",
          [](const Array& query, const Array& keys, const std::vector<std::int64_t>& offsets,
             const std::string& name) {
            return checked([&] { return Sets::from_ragged(query, keys, offsets, name); });
          },
          nb::arg("query"), nb::arg("keys"), nb::arg("offsets"), nb::arg("name"))
      .def_static(
          "from_sequence",
          [](const AnyArray& tokens, const std::string& name) {
            const Array t = borrow(tokens);
            return checked([&] { return Sets::from_sequence(t, name); });
          },
          nb::arg("tokens"), nb::arg("name"))
      .def_static(
          "from_sequence",
          [](const Array& tokens, const std::string& name) {
            return checked([&] { return Sets::from_sequence(tokens, name); });
          },
          nb::arg("tokens"), nb::arg("name"))
      .def_prop_ro("count", &Sets::count)
      .def_prop_ro("dim", &Sets::dim);
  m.def("generate", &generated, nb::arg("options"), nb::arg("settings"));
  m.def("attention_kernel", &kernel, nb::arg("a"), nb::arg("b").none(), nb::arg("options"),
        nb::arg("settings"));
}

}  // namespace headlens::python

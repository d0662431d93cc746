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

using python::borrow;
const Array& borrow(const Array& array) { return array; }  // as it is: it lies on a device

// Given: AnyArray in main memory, or Array on a device.
template <class Given>
void bind_layouts(nb::class_<Sets>& sets) {
  using Make = Sets (*)(Array, std::string);
  const auto of_tokens = [&sets](const char* layout, Make make) {
    sets.def_static(
        layout,
        [make](const Given& tokens, const std::string& name) {
          const Array t = borrow(tokens);
          return checked([&] { return make(t, name); });
        },
        nb::arg("tokens"), nb::arg("name"));
  };
  of_tokens("from_tokens", &Sets::from_tokens);
  of_tokens("from_sequence", &Sets::from_sequence);
  sets.def_static(
      "from_arrays",
      [](const Given& query, const Given& keys, const std::string& name) {
        const Array q = borrow(query), k = borrow(keys);
        return checked([&] { return Sets::from_arrays(q, k, name); });
      },
      nb::arg("query"), nb::arg("keys"), nb::arg("name"));
  sets.def_static(
      "from_ragged",
      [](const Given& query, const Given& keys, const std::vector<std::int64_t>& offsets,
         const std::string& name) {
        const Array q = borrow(query), k = borrow(keys);
        return checked([&] { return Sets::from_ragged(q, k, offsets, name); });
      },
      nb::arg("query"), nb::arg("keys"), nb::arg("offsets"), nb::arg("name"));
}

}  // namespace

void bind_sets(nb::module_& m) {
  nb::class_<Array>(m, "DeviceArray").def_prop_ro("dtype", [](const Array& array) {
    return name(array.dtype());
  });
  m.def("check_cuda_device", &check_cuda_device, nb::arg("number"), nb::arg("name"),
        nb::call_guard<nb::gil_scoped_release>());  // opens the device, when it is the first to ask
  m.def("cuda_array", &borrow_from_cuda, nb::arg("capsule"), nb::arg("name"));
  nb::class_<Sets> sets(m, "Sets");
  bind_layouts<AnyArray>(sets);
  bind_layouts<Array>(sets);
  sets.def_prop_ro("count", &Sets::count).def_prop_ro("dim", &Sets::dim);
  m.def("generate", &generated, nb::arg("options"), nb::arg("settings"));
  m.def("attention_kernel", &kernel, nb::arg("a"), nb::arg("b").none(), nb::arg("options"),
        nb::arg("settings"));
}

}  // namespace headlens::python

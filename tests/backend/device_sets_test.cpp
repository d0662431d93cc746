// Fits and predictions of sets whose tokens lie on a device: on a toy that emulates one, on the processor,
// which refuses them, and on the CUDA back end, where there is a device.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/toy_fit.hpp"
#include "data/set_part.hpp"
#include "headlens/fit.hpp"
#include "headlens/kernel.hpp"
#include "reference/backends.hpp"
#include "reference/device_memory.hpp"
#include "reference/random_sets.hpp"
#include "reference/refusal.hpp"

namespace headlens {
namespace {

using reference::refusal_of;
using testing::HasSubstr;

// Reads what lies on its device, which is this host in disguise.
class DeviceToy final : public toy::FitMachine {
 public:
  int device_number() const override { return 1; }
  std::shared_ptr<const DeviceMemory> borrow(std::shared_ptr<void> address,
                                             std::size_t bytes) const override {
    const Array values(DType::f32, {static_cast<Index>(bytes / sizeof(float))}, std::move(address));
    return std::make_shared<reference::EmulatedMemory>(values);
  }
  std::unique_ptr<backend::Design> make_design(const backend::FeatureSource& source, const Array& heads,
                                               const backend::Context& context) override {
    const Sets here = part_of(source.sets, 1, source.sets.max_keys());
    return FitMachine::make_design({here, source.features, source.centre, source.block_sets}, heads, context);
  }
};

LabelledSets there(const LabelledSets& data) { return {reference::on_device(data.sets), data.targets}; }

FitOptions five_heads(std::optional<double> ridge) {
  FitOptions options;
  options.features.heads = 5;
  options.ridge = ridge;
  return options;
}

TEST(DeviceSets, FitAsOthersOnABackEndThatReadsThem) {
  DeviceToy machine;
  const backend::Replacement here(machine);
  for (const Sets& sets :
       {reference::ragged_sets<double>(30, 3, 2, 3), reference::equal_sets<float>(30, 3, 2, 4)})
    for (const std::optional<double> ridge : {std::optional<double>(0.1), std::optional<double>()}) {
      const LabelledSets data = reference::labelled(sets, 4, 2);
      const Fit a = fit(data, five_heads(ridge), {.threads = 1});
      const Fit b = fit(there(data), five_heads(ridge), {.threads = 1});
      EXPECT_EQ(a.model.values.to_doubles(), b.model.values.to_doubles());
      EXPECT_EQ(a.report.score_digits, b.report.score_digits);
      EXPECT_EQ(a.report.ridge, b.report.ridge);
    }
}

TEST(DeviceSets, AreRefusedByTheProcessor) {
  const LabelledSets data = reference::labelled(reference::equal_sets<double>(30, 3, 2, 3), 4);
  const Sets device_sets = reference::on_device(data.sets);
  const Execution execution{.threads = 2};
  const auto expect_refusal = [](const auto& call) {
    EXPECT_THAT(refusal_of(call), HasSubstr("lies on cuda:1, where only backend cuda reads it"));
  };
  expect_refusal([&] { (void)fit(there(data), five_heads(0.1), execution); });
  FitOptions infinite = five_heads(0.1);
  infinite.features.heads = kInfiniteHeads;
  expect_refusal([&] { (void)fit(there(data), infinite, execution); });
  const Model model = fit(data, five_heads(0.1), execution).model;
  expect_refusal([&] { (void)predict(model, device_sets, execution); });
  expect_refusal([&] { (void)compute_features(model, device_sets, execution); });
  expect_refusal([&] { (void)attention_kernel(device_sets, {}, execution); });
}

TEST(CudaArrays, NeedTheirBackEnd) {
  for (const BackendInfo& info : backend::backends())
    if (info.name == "cuda" && info.available) GTEST_SKIP() << "the back end is there";
  float value = 1;
  const std::shared_ptr<void> address(&value, [](void*) {});
  EXPECT_THAT(refusal_of([&] { (void)cuda_array(DType::f32, {1}, address, 0, "X"); }),
              HasSubstr("backend: cuda given: "));
  EXPECT_THAT(refusal_of([] { check_cuda_device(0, "X"); }), HasSubstr("backend: cuda given: "));
}

TEST(CudaArrays, AreCheckedBeforeTheyAreBorrowed) {
  DeviceToy machine;
  const backend::Replacement here(machine);
  auto values = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3, 4, 5, 6});
  const auto borrow = [&](DType type, std::vector<Index> shape, int number) {
    return cuda_array(type, std::move(shape), std::shared_ptr<void>(values, values->data()), number, "X");
  };
  EXPECT_THAT(refusal_of([&] {
                (void)borrow(DType::f32, {2, 3}, 0);
              }),
              HasSubstr("X: lies on cuda:0, and headlens works on cuda:1: copy it there"));
  EXPECT_THAT(refusal_of([&] {
                (void)borrow(DType::i64, {1, 3}, 1);
              }),
              HasSubstr("X: int64 (1, 3) on a device given, expected float32 or float64"));
  EXPECT_THAT(refusal_of([&] {
                (void)borrow(DType::f32, {Index{1} << 40, Index{1} << 40}, 1);
              }),
              HasSubstr("is too large"));
  const std::shared_ptr<void> crooked(values, reinterpret_cast<char*>(values->data()) + 2);
  EXPECT_THAT(refusal_of([&] {
                (void)cuda_array(DType::f32, {1, 2}, crooked, 1, "X");
              }),
              HasSubstr("X: float32 (1, 2) on a device begins at an address that is no multiple of 4 bytes"));
  {
    const Array array = borrow(DType::f32, {1, 3, 2}, 1);
    EXPECT_EQ(values.use_count(), 3);
    EXPECT_EQ(part_of(Sets::from_tokens(array), 1, 2).keys().to_doubles(), (std::vector<double>{3, 4, 5, 6}));
  }
  EXPECT_EQ(values.use_count(), 2);  // with the crooked one
}

// Memory of the device by the driver, which these tests do not link.
class DriverMemory {
 public:
  explicit DriverMemory(const Array& values) : driver_(dlopen("libcuda.so.1", RTLD_LAZY)) {
    EXPECT_EQ(call<int(std::uint64_t*, std::size_t)>("cuMemAlloc_v2")(&address_, values.bytes()), 0);
    EXPECT_EQ(call<int(std::uint64_t, const void*, std::size_t)>("cuMemcpyHtoD_v2")(address_, values.raw(),
                                                                                    values.bytes()),
              0);
  }
  ~DriverMemory() { call<int(std::uint64_t)>("cuMemFree_v2")(address_); }
  void* address() const { return reinterpret_cast<void*>(address_); }

 private:
  template <class Function>
  Function* call(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(driver_, name));
  }

  void* driver_;
  std::uint64_t address_ = 0;
};

Array on_cuda(const Array& values) {
  check_cuda_device(0, "tokens");  // opens the device
  const auto memory = std::make_shared<DriverMemory>(values);
  return cuda_array(values.dtype(), values.shape(), std::shared_ptr<void>(memory, memory->address()), 0,
                    "tokens");
}

Sets on_cuda(const Sets& sets) {
  const Array query = on_cuda(sets.query());
  if (sets.is_sequence()) return Sets::from_sequence(query);
  if (sets.is_query_first()) return Sets::from_tokens(query);
  return sets.offsets().empty() ? Sets::from_arrays(query, on_cuda(sets.keys()))
                                : Sets::from_ragged(query, on_cuda(sets.keys()), sets.offsets());
}

class OnCuda : public reference::OnEveryBackend {};

// The same tokens, packed by the host or by the device, so the same bytes come out.
TEST_P(OnCuda, SetsOfTheDeviceAndOfTheHostAreTheSame) {
  using reference::normal_array;
  const std::vector<Sets> layouts{
      reference::equal_sets<double>(300, 4, 3, 1),
      reference::ragged_sets<float>(300, 5, 2, 2),
      Sets::from_tokens(normal_array<float>({200, 5, 3}, 3)),
      Sets::from_tokens(normal_array<float>({3, 70, 40}, 3)),
      Sets::from_sequence(normal_array<double>({50, 4, 2}, 4)),
      Sets::from_arrays(normal_array<float>({60, 2}, 5), normal_array<double>({60, 3, 2}, 6))};
  for (const Sets& sets : layouts)
    for (const Precision precision : {Precision::f32, Precision::f64})
      for (const Positions positions : {Positions::none, Positions::sinusoidal}) {
        const LabelledSets here = reference::labelled(sets, 4);
        const LabelledSets device{on_cuda(sets), here.targets};
        FitOptions options = five_heads(0.1);
        options.features.precision = precision;
        options.features.positions = positions;
        const Fit a = fit(here, options, execution()), b = fit(device, options, execution());
        EXPECT_EQ(a.model.values.to_doubles(), b.model.values.to_doubles());
        EXPECT_EQ(a.report.score_digits, b.report.score_digits);
        EXPECT_EQ(predict(a.model, here.sets, execution()).to_doubles(),
                  predict(a.model, device.sets, execution()).to_doubles());
        const Array phi = compute_features(a.model, here.sets, execution());
        const Array there = compute_features(a.model, device.sets, execution());
        ASSERT_NE(there.device(), nullptr);
        Array fetched(phi.dtype(), there.shape());
        there.device()->fetch({{0, there.bytes()}}, fetched.raw());
        EXPECT_EQ(fetched.to_doubles(), phi.to_doubles());
      }
}

TEST_P(OnCuda, TokensThatAreNotFiniteAreFound) {
  for (const Index at : {0, 777, 59999}) {
    Array tokens = reference::normal_array<float>({1000, 6, 10}, 1);
    tokens.data<float>()[59999] = std::numeric_limits<float>::infinity();
    tokens.data<float>()[at] = std::numeric_limits<float>::quiet_NaN();
    const std::string here = refusal_of([&] { (void)Sets::from_tokens(tokens, "X"); });
    EXPECT_EQ(refusal_of([&] { (void)Sets::from_tokens(on_cuda(tokens), "X"); }), here);
  }
}

TEST_P(OnCuda, MemoryOfTheHostIsNoneOfTheDevice) {
  float value = 1;
  const std::shared_ptr<void> address(&value, [](void*) {});
  EXPECT_THAT(refusal_of([&] { (void)cuda_array(DType::f32, {1}, address, 0, "X"); }),
              HasSubstr("is no memory of that device"));
  check_cuda_device(0, "X");
  const auto small = std::make_shared<DriverMemory>(reference::normal_array<float>({1}, 1));
  const std::shared_ptr<void> begin(small, small->address());
  EXPECT_THAT(refusal_of([&] { (void)cuda_array(DType::f32, {Index{1} << 36}, begin, 0, "X"); }),
              HasSubstr("is no memory of that device"));
  EXPECT_THAT(refusal_of([] { check_cuda_device(7, "X"); }),
              HasSubstr("X: lies on cuda:7, and headlens works on"));
}

INSTANTIATE_TEST_SUITE_P(Backends, OnCuda, testing::Values("cuda"),
                         [](const auto& backend) { return backend.param; });

}  // namespace
}  // namespace headlens

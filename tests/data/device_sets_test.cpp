// Sets whose tokens lie on a device: they are checked like others, and the host never reads them there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "data/set_part.hpp"
#include "reference/device_memory.hpp"
#include "reference/random_sets.hpp"
#include "reference/refusal.hpp"

namespace headlens {
namespace {

using reference::normal_array;
using reference::on_device;
using reference::refusal_of;
using testing::HasSubstr;

// One of every layout, in both types.
std::vector<Sets> layouts() {
  return {reference::equal_sets<double>(11, 4, 3, 1), reference::ragged_sets<float>(11, 5, 2, 2),
          Sets::from_tokens(normal_array<float>({9, 5, 3}, 3)),
          Sets::from_sequence(normal_array<double>({5, 4, 2}, 4)),
          Sets::from_arrays(normal_array<float>({6, 2}, 5), normal_array<double>({6, 3, 2}, 6))};
}

std::vector<double> numbers_of(const Sets& sets, Index set) {
  std::vector<double> out(static_cast<std::size_t>((1 + sets.keys_of(set)) * sets.dim()));
  sets.copy_set(set, out.data(), out.data() + sets.dim(), sets.dim());
  return out;
}

TEST(DeviceArrays, AreReadByNoHost) {
  const Array array = on_device(normal_array<float>({2, 3}, 1));
  EXPECT_EQ(array.describe(), "float32 (2, 3)");
  EXPECT_EQ(array.bytes(), 24U);
  const auto expect_refusal = [](const std::string& text) {
    EXPECT_THAT(text, HasSubstr("float32 (2, 3) lies on cuda:1"));
    EXPECT_THAT(text, HasSubstr("copy it to main memory first"));
  };
  Array copy = array;
  expect_refusal(refusal_of([&] { (void)array.raw(); }));
  expect_refusal(refusal_of([&] { (void)copy.raw(); }));
  expect_refusal(refusal_of([&] { (void)array.data<float>(); }));
  expect_refusal(refusal_of([&] { (void)copy.data<float>(); }));
  expect_refusal(refusal_of([&] { (void)array.at(0); }));
  expect_refusal(refusal_of([&] { (void)array.to_doubles(); }));
}

TEST(DeviceArrays, KeepTheirMemoryAsLongAsACopyLives) {
  auto memory = std::make_shared<reference::EmulatedMemory>(normal_array<float>({2}, 1));
  Array copy;
  {
    const Array array = Array::on_device(DType::f32, {2}, memory);
    copy = array;
  }
  EXPECT_EQ(memory.use_count(), 2);
  copy = Array();
  EXPECT_EQ(memory.use_count(), 1);
}

TEST(DeviceSets, HaveTheSizesOfOthers) {
  for (const Sets& sets : layouts()) {
    const Sets there = on_device(sets);
    EXPECT_TRUE(there.on_device());
    EXPECT_FALSE(sets.on_device());
    EXPECT_EQ(there.count(), sets.count());
    EXPECT_EQ(there.total_keys(), sets.total_keys());
    EXPECT_EQ(there.equal_sizes(), sets.equal_sizes());
    EXPECT_EQ(there.host_bytes(), 0);
    EXPECT_EQ(sets.host_bytes(), static_cast<double>(sets.query().bytes() + sets.keys().bytes()));
  }
}

TEST(DeviceSets, SaySoWhenTheHostReadsThem) {
  for (const Sets& sets : layouts())
    EXPECT_THAT(refusal_of([&] { (void)numbers_of(on_device(sets), 0); }),
                HasSubstr("sets: lies on cuda:1, where only backend cuda reads it"));
}

TEST(DeviceSets, AreCheckedLikeOthers) {
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity()}) {
    Array tokens = normal_array<float>({4, 3, 2}, 1);
    tokens.data<float>()[17] = static_cast<float>(bad);
    const std::string here = refusal_of([&] { (void)Sets::from_tokens(tokens, "X"); });
    EXPECT_THAT(here, HasSubstr("X: tokens[2, 2, 1]"));
    EXPECT_EQ(refusal_of([&] { (void)Sets::from_tokens(on_device(tokens), "X"); }), here);
  }
  const Array flat = normal_array<float>({4, 3}, 1), empty(DType::f32, {0, 3, 2});
  EXPECT_THAT(refusal_of([&] { (void)Sets::from_tokens(on_device(flat), "X"); }), HasSubstr("X: tokens"));
  EXPECT_THAT(refusal_of([&] { (void)Sets::from_tokens(on_device(empty), "X"); }),
              HasSubstr("X: tokens is empty"));
}

TEST(DeviceSets, LieInOnePlace) {
  const Array query = normal_array<double>({4, 2}, 1), keys = normal_array<double>({4, 3, 2}, 2);
  EXPECT_THAT(refusal_of([&] { (void)Sets::from_arrays(query, on_device(keys), "X"); }),
              HasSubstr("X: query lies in main memory and keys in cuda:1, expected one place"));
  EXPECT_THAT(
      refusal_of([&] {
        (void)Sets::from_ragged(on_device(query), normal_array<double>({8, 2}, 2), {0, 1, 3, 5, 8}, "X");
      }),
      HasSubstr("X: query lies in cuda:1 and keys in main memory"));
}

TEST(Sets, EveryThirdOfThemIsThatSet) {
  for (const Sets& sets : layouts())
    for (const Index step : {1, 3, 100})
      for (const Sets& from : {sets, on_device(sets)}) {
        const Sets some = part_of(from, step, from.max_keys());
        EXPECT_FALSE(some.on_device());
        ASSERT_EQ(some.count(), (sets.count() + step - 1) / step);
        for (Index i = 0; i < some.count(); ++i) EXPECT_EQ(numbers_of(some, i), numbers_of(sets, i * step));
      }
}

TEST(Sets, APartOfThemHasTheFirstKeys) {
  for (const Sets& sets : layouts())
    for (const Index most_keys : {1, 2, 100})
      for (const Sets& from : {sets, on_device(sets)}) {
        const Sets some = part_of(from, 2, most_keys);
        EXPECT_EQ(some.is_sequence(), false);
        for (Index i = 0; i < some.count(); ++i) {
          ASSERT_EQ(some.keys_of(i), std::min(most_keys, sets.keys_of(2 * i)));
          std::vector<double> expected = numbers_of(sets, 2 * i);
          expected.resize(static_cast<std::size_t>((1 + some.keys_of(i)) * sets.dim()));
          EXPECT_EQ(numbers_of(some, i), expected);
        }
      }
}

}  // namespace
}  // namespace headlens

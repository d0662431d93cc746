// Blocks of a file are the file: same sets, targets and errors as at once, whatever the blocks.
#include "headlens/set_reader.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "headlens/arrays.hpp"
#include "headlens/error.hpp"
#include "io/files.hpp"
#include "reference/random_sets.hpp"

namespace headlens {
namespace {

using namespace reference;

class SetReaderTest : public test::FolderTest {
 protected:
  std::filesystem::path save(const NamedArrays& arrays) {
    write_npz(folder / "data.npz", arrays);
    return folder / "data.npz";
  }
};

// Small integers, which every type holds.
Array numbers(DType type, std::vector<Index> shape) {
  Array out(type, std::move(shape));
  const auto fill = [&]<class T>(T* to) {
    for (Index i = 0; i < out.size(); ++i) to[i] = static_cast<T>((7 * i) % 11);
  };
  if (type == DType::f32) fill(out.data<float>());
  if (type == DType::f64) fill(out.data<double>());
  if (type == DType::i8) fill(out.data<std::int8_t>());
  if (type == DType::i16) fill(out.data<std::int16_t>());
  if (type == DType::i32) fill(out.data<std::int32_t>());
  if (type == DType::i64) fill(out.data<std::int64_t>());
  if (type == DType::u8) fill(out.data<std::uint8_t>());
  if (type == DType::u16) fill(out.data<std::uint16_t>());
  if (type == DType::u32) fill(out.data<std::uint32_t>());
  if (type == DType::u64) fill(out.data<std::uint64_t>());
  return out;
}

// Every set of the blocks is that of the whole file, with its targets.
void expect_same_sets(const std::filesystem::path& path, DataLayout layout, Index step) {
  const LabelledSets whole = load_labelled_sets(path, layout, {});
  SetReader reader(path, layout, Labels::needed, {});
  ASSERT_EQ(reader.count(), whole.sets.count());
  EXPECT_EQ(reader.dim(), whole.sets.dim());
  EXPECT_EQ(reader.max_keys(), whole.sets.max_keys());
  EXPECT_EQ(reader.equal_sizes(), whole.sets.equal_sizes());
  EXPECT_EQ(reader.sequence_length(), whole.sets.sequence_length());
  EXPECT_EQ(reader.outputs(), whole.targets.outputs);
  const Index dim = whole.sets.dim(), q = whole.targets.outputs;
  Index next = 0;
  while (reader.remaining() > 0) {
    const SetBlock block = reader.next(step);
    ASSERT_EQ(block.first, next);
    for (Index i = 0; i < block.data.sets.count(); ++i, ++next) {
      ASSERT_EQ(block.data.sets.keys_of(i), whole.sets.keys_of(next));
      const auto size = static_cast<std::size_t>(whole.sets.keys_of(next) * dim);
      std::vector<double> q1(static_cast<std::size_t>(dim)), q2(q1), k1(size), k2(size);
      block.data.sets.copy_set(i, q1.data(), k1.data(), dim);
      whole.sets.copy_set(next, q2.data(), k2.data(), dim);
      ASSERT_EQ(q1, q2);
      ASSERT_EQ(k1, k2);
      for (Index c = 0; c < q; ++c)
        ASSERT_EQ(block.data.targets.values.at(static_cast<std::size_t>(i * q + c)),
                  whole.targets.values.at(static_cast<std::size_t>(next * q + c)));
    }
  }
  EXPECT_EQ(next, reader.count());
}

// Five ragged sets of 1 to 4 keys.
NamedArrays ragged_arrays() {
  return {{"query", normal_array<double>({5, 2}, 1)},
          {"keys", normal_array<double>({12, 2}, 2)},
          {"offsets", Array::from<std::int64_t>({0, 3, 4, 8, 10, 12}, {6})},
          {"y", normal_array<double>({5, 2}, 3)}};
}

TEST_F(SetReaderTest, BlocksAreTheFile) {
  for (const Index step : {1, 2, 7, 100}) {
    expect_same_sets(save(ragged_arrays()), DataLayout::sets, step);
    expect_same_sets(
        save({{"tokens", normal_array<float>({9, 4, 3}, 1)}, {"y", normal_array<float>({9, 4}, 2)}}),
        DataLayout::sequence, step);
    expect_same_sets(save({{"query", normal_array<float>({1, 3}, 1)},
                           {"keys", normal_array<double>({1, 2, 3}, 2)},
                           {"y", normal_array<float>({1}, 3)}}),
                     DataLayout::sets, step);
    for (const DType type : test::all_types) {
      if (type == DType::boolean) continue;
      expect_same_sets(save({{"query", numbers(type, {20, 3})},
                             {"keys", numbers(type, {20, 2, 3})},
                             {"y", numbers(type, {20})}}),
                       DataLayout::sets, step);
    }
  }
}

TEST_F(SetReaderTest, LargestBlockIsTheLargest) {
  const auto path = save(ragged_arrays());
  const SetReader reader(path, DataLayout::sets, Labels::ignored, {});
  // 8 bytes per item, 2 items per token; pairs of sets have 4, 6 and 2 keys.
  EXPECT_EQ(reader.largest_block_bytes(1), 8.0 * 2 * (1 + 4));
  EXPECT_EQ(reader.largest_block_bytes(2), 8.0 * 2 * (2 + 6));
  EXPECT_EQ(reader.largest_block_bytes(50), 8.0 * 2 * (5 + 12));
}

std::string late_error(const std::filesystem::path& path, DataLayout layout, Labels labels) {
  try {
    SetReader reader(path, layout, labels, {});
    while (reader.remaining() > 0) (void)reader.next(2);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string early_error(const std::filesystem::path& path, DataLayout layout, Labels labels) {
  try {
    if (labels == Labels::needed) return (void)load_labelled_sets(path, layout, {}), "no error";
    (void)load_sets(path, layout, {});
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// Word for word the errors of reading at once, places included.
TEST_F(SetReaderTest, ErrorsAreThoseOfLoading) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto with = [](NamedArrays arrays, const char* key, Index at, double value) {
    Array changed = Array::from(arrays[key].to_doubles(), arrays[key].shape());  // copies share their bytes
    changed.data<double>()[at] = value;
    arrays[key] = changed;
    return arrays;
  };
  const auto without = [](NamedArrays arrays, const char* key) {
    arrays.erase(key);
    return arrays;
  };
  const auto instead = [](NamedArrays arrays, const char* key, Array array) {
    arrays[key] = std::move(array);
    return arrays;
  };
  const NamedArrays good = ragged_arrays();
  const NamedArrays rectangular =
      instead(without(good, "offsets"), "keys", normal_array<double>({5, 3, 2}, 2));
  const NamedArrays sequence{{"tokens", normal_array<double>({5, 3, 2}, 1)},
                             {"y", normal_array<double>({5, 3}, 2)}};
  const std::vector<std::pair<NamedArrays, DataLayout>> cases{
      {with(good, "keys", 21, nan), DataLayout::sets},
      {with(good, "query", 9, nan), DataLayout::sets},
      {with(good, "y", 9, nan), DataLayout::sets},
      {with(rectangular, "keys", 29, -1 / 0.0), DataLayout::sets},
      {with(sequence, "tokens", 29, nan), DataLayout::sequence},
      {with(sequence, "y", 14, 1e200), DataLayout::sequence},
      {without(good, "y"), DataLayout::sets},
      {without(good, "keys"), DataLayout::sets},
      {good, DataLayout::sequence},
      {sequence, DataLayout::sets},
      {{}, DataLayout::sets},
      {instead(good, "y", normal_array<double>({5, 0}, 1)), DataLayout::sets},
      {instead(good, "y", normal_array<double>({4}, 1)), DataLayout::sets},
      {instead(good, "query", normal_array<double>({0, 2}, 1)), DataLayout::sets},
      {instead(good, "query", normal_array<double>({5, 0}, 1)), DataLayout::sets},
      {instead(good, "query", Array(DType::boolean, {5, 2})), DataLayout::sets},
      {instead(good, "offsets", Array::from<std::int64_t>({0, 3, 3, 8, 10, 12}, {6})), DataLayout::sets},
      {instead(good, "offsets", Array::from<std::int64_t>({0, 3, 4, 8, 10, 13}, {6})), DataLayout::sets},
      {instead(good, "offsets", Array::from<std::int64_t>({0, -3, 4, 8, 10, 12}, {6})), DataLayout::sets},
      {instead(good, "offsets", normal_array<double>({6}, 1)), DataLayout::sets},
  };
  for (const auto& [arrays, layout] : cases) {
    const auto path = save(arrays);
    const std::string wanted = early_error(path, layout, Labels::needed);
    EXPECT_NE(wanted, "no error");
    EXPECT_EQ(late_error(path, layout, Labels::needed), wanted);
    EXPECT_EQ(late_error(path, layout, Labels::ignored), early_error(path, layout, Labels::ignored));
  }
}

TEST_F(SetReaderTest, DamageAnywhereIsFoundByTheEnd) {
  const auto path = save(ragged_arrays());
  const std::string bytes = test::read_bytes(path);
  for (const char* name : {"keys.npy", "query.npy", "y.npy"}) {
    std::string damaged = bytes;
    damaged[damaged.find(name) + 200] ^= 1;  // in the data, behind a header of 128 bytes
    test::write_bytes(path, damaged);
    EXPECT_NE(late_error(path, DataLayout::sets, Labels::ignored).find("CRC error"), std::string::npos)
        << name;
  }
  test::write_bytes(path, bytes.substr(0, bytes.size() / 2));
  EXPECT_NE(late_error(path, DataLayout::sets, Labels::ignored).find(".npz archive"), std::string::npos);
}

}  // namespace
}  // namespace headlens

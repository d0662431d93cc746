// safetensors: what is written is read back, with the bytes the format prescribes.
#include "io/safetensors.hpp"

#include "files.hpp"
#include "zip_builder.hpp"

namespace headlens::test {

class SafetensorsTest : public FolderTest {};

TEST_F(SafetensorsTest, RoundTripsEveryTypeAndShape) {
  TensorFile file{.tensors = {}, .metadata = {{"seed", "7"}, {"", ""}, {"odd \n\"é", "\t{}\x01"}}};
  for (const DType type : all_types)
    for (const auto& shape : all_shapes) {
      Array array = patterned(type, shape);
      const std::string label = array.describe();
      file.tensors.emplace(label, std::move(array));
    }
  const auto path = folder / "a.safetensors";
  write_safetensors(path, file);
  const TensorFile found = read_safetensors(path);
  EXPECT_EQ(found.metadata, file.metadata);
  ASSERT_EQ(found.tensors.size(), file.tensors.size());
  for (const auto& [name, array] : file.tensors) {
    SCOPED_TRACE(name);
    expect_same(found.tensors.at(name), array);
  }
  EXPECT_EQ(names().size(), 1U);
}

TEST_F(SafetensorsTest, HalfPrecisionBecomesFloat) {
  // Bits and values of both formats: one, the smallest step, the largest number, minus a third, infinity.
  const std::vector<std::uint16_t> bf16{0x3f80, 0x0001, 0x7f7f, 0xbeab, 0x7f80},
      f16{0x3c00, 0x0001, 0x7bff, 0xb555, 0x7c00};
  std::string header = R"({"a":{"dtype":"BF16","shape":[5],"data_offsets":[0,10]},)"
                       R"("b":{"dtype":"F16","shape":[5],"data_offsets":[10,20]}})";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  bytes += header;
  for (const auto* values : {&bf16, &f16})
    bytes.append(reinterpret_cast<const char*>(values->data()), 2 * values->size());
  const auto path = folder / "half.safetensors";
  write_text(path, bytes);
  const TensorFile found = read_safetensors(path);
  EXPECT_EQ(
      found.tensors.at("a").to_doubles(),
      (std::vector<double>{1, 0x1p-133, 0x1.fep127, -0.333984375, std::numeric_limits<double>::infinity()}));
  EXPECT_EQ(
      found.tensors.at("b").to_doubles(),
      (std::vector<double>{1, 0x1p-24, 65504, -0.333251953125, std::numeric_limits<double>::infinity()}));
  EXPECT_THROW(read_safetensors(path, 39), Error);  // 40 bytes in memory
}

TEST_F(SafetensorsTest, BytesAreAsPrescribed) {
  const auto path = folder / "a.safetensors";
  TensorFile file;
  file.tensors["b"] = counting<float>({2});
  file.tensors["a"] = counting<std::uint8_t>({3});
  file.metadata["k"] = "v";
  write_safetensors(path, file);
  std::string header = R"({"__metadata__":{"k":"v"},"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                       R"("b":{"dtype":"F32","shape":[2],"data_offsets":[3,11]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::string data("\0\1\2\0\0\0\0\0\0\x80\x3f", 11);
  EXPECT_EQ(read_bytes(path), little(header.size(), 8) + header + data);
}

TEST_F(SafetensorsTest, NothingIsAFileToo) {
  write_safetensors(folder / "a", {});
  EXPECT_EQ(read_bytes(folder / "a"), little(8, 8) + "{}      ");
  const TensorFile found = read_safetensors(folder / "a");
  EXPECT_TRUE(found.tensors.empty() && found.metadata.empty());
}

TEST_F(SafetensorsTest, ReadsFieldsAndTensorsInAnyOrder) {
  const std::string header =
      R"( {"b": {"shape": [], "data_offsets": [0, 1], "dtype": "I8"},
          "none": {"dtype": "F64", "shape": [3, 0], "data_offsets": [1, 1]},
          "a": {"data_offsets": [1, 3], "dtype": "BOOL", "shape": [2, 1]}, "__metadata__": {}})";
  const std::string bytes = little(header.size() - 1, 8) + header.substr(1) + std::string("\x05\0\1", 3);
  io::MemoryReader in(as_span(bytes), "m");
  const TensorFile file = io::read_safetensors(in);
  EXPECT_EQ(file.tensors.at("b").at(0), 5);
  EXPECT_EQ(file.tensors.at("a").to_doubles(), (std::vector<double>{0, 1}));
  EXPECT_EQ(file.tensors.at("none").shape(), (std::vector<Index>{3, 0}));
}

TEST_F(SafetensorsTest, BudgetIsCheckedBeforeReading) {
  const auto path = folder / "a";
  write_safetensors(path, {.tensors = {{"a", counting<double>({4})}}, .metadata = {}});
  EXPECT_EQ(read_safetensors(path, 32).tensors.size(), 1U);
  expect_error([&] { read_safetensors(path, 31); }, {path.string(), "32 bytes", "31 bytes"},
               ErrorCode::memory);
}

TEST_F(SafetensorsTest, RefusesToWriteWhatCannotBeRead) {
  const auto write = [&](const TensorFile& file) { write_safetensors(folder / "a", file); };
  expect_error([&] { write({.tensors = {{"__metadata__", Array()}}, .metadata = {}}); }, {"__metadata__"});
  expect_error([&] { write({.tensors = {{"\xff", Array()}}, .metadata = {}}); }, {"UTF-8"});
  expect_error([&] { write({.tensors = {}, .metadata = {{"a", "\xff"}}}); }, {"UTF-8"});
  expect_error(
      [&] {
        write({.tensors = {{"a", Array(DType::f64, std::vector<Index>(65, 1))}}, .metadata = {}});
      },
      {"65 dimensions"});
  EXPECT_TRUE(names().empty());
}

}  // namespace headlens::test

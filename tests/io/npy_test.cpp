// .npy files: what is written is read back, and NumPy agrees to the byte.
#include "io/npy.hpp"

#include "files.hpp"
#include "headlens/arrays.hpp"

namespace headlens::test {

class NpyTest : public FolderTest {};

TEST_F(NpyTest, RoundTripsEveryTypeAndShape) {
  const auto path = folder / "a.npy";
  for (const DType type : all_types)
    for (const auto& shape : all_shapes) {
      const Array array = patterned(type, shape);
      SCOPED_TRACE(array.describe());
      write_npy(path, array);
      expect_same(read_npy(path), array);
    }
  EXPECT_EQ(names().size(), 1U);
}

TEST_F(NpyTest, DefaultArrayIsWritten) {
  write_npy(folder / "a.npy", Array());
  EXPECT_EQ(read_npy(folder / "a.npy").shape(), std::vector<Index>{0});
}

void expect_golden(const std::string& name, const Array& array) {
  SCOPED_TRACE(name);
  const std::string bytes = read_bytes(golden / (name + ".npy"));
  const std::string data(static_cast<const char*>(array.raw()), array.bytes());
  EXPECT_EQ(io::format_npy_header(array) + data, bytes);
  expect_same(read_npy(golden / (name + ".npy")), array);
}

TEST_F(NpyTest, BytesAreNumPys) {
  expect_golden("type_float32", counting<float>({2, 3}));
  expect_golden("type_float64", counting<double>({2, 3}));
  expect_golden("type_int8", counting<std::int8_t>({2, 3}));
  expect_golden("type_int16", counting<std::int16_t>({2, 3}));
  expect_golden("type_int32", counting<std::int32_t>({2, 3}));
  expect_golden("type_int64", counting<std::int64_t>({2, 3}));
  expect_golden("type_uint8", counting<std::uint8_t>({2, 3}));
  expect_golden("type_uint16", counting<std::uint16_t>({2, 3}));
  expect_golden("type_uint32", counting<std::uint32_t>({2, 3}));
  expect_golden("type_uint64", counting<std::uint64_t>({2, 3}));
  Array truth(DType::boolean, {2, 3});
  for (int i = 1; i < 6; ++i) static_cast<char*>(truth.raw())[i] = 1;
  expect_golden("type_bool", truth);
  expect_golden("shape_", counting<double>({}));
  expect_golden("shape_5", counting<double>({5}));
  expect_golden("shape_0", counting<double>({0}));
  expect_golden("shape_2x0x3", counting<double>({2, 0, 3}));
  expect_golden("shape_1x2x3x4", counting<double>({1, 2, 3, 4}));
}

TEST_F(NpyTest, ReadsOtherVersionsAndHarmlessFortranOrder) {
  expect_same(read_npy(golden / "version_2.npy"), counting<double>({2, 3}));
  expect_same(read_npy(golden / "version_3.npy"), counting<double>({2, 3}));
  expect_same(read_npy(golden / "fortran_column.npy"), counting<double>({3, 1}));
}

TEST_F(NpyTest, RefusesWhatNumPyCanWriteAndWeCannotRead) {
  const auto refuse = [](const std::string& name, std::initializer_list<std::string> fragments) {
    SCOPED_TRACE(name);
    const auto path = golden / (name + ".npy");
    expect_error([&] { read_npy(path); }, {path.string() + ": "});
    expect_error([&] { read_npy(path); }, fragments);
  };
  refuse("bad_fortran", {"(2, 3)", "Fortran order", "np.ascontiguousarray"});
  refuse("bad_big_endian", {"big-endian", "'>f8'", "astype('<f8')"});
  refuse("bad_complex", {"complex", "'<c16'", "allowed are float32, float64"});
  refuse("bad_half", {"floating-point numbers of another size", "'<f2'", "allowed"});
  refuse("bad_string", {"strings", "'<U1'", "allowed"});
  refuse("bad_date", {"dates", "'<M8[D]'", "allowed"});
  refuse("bad_object", {"Python objects", "'|O'", "allowed"});
  refuse("bad_structured", {"structured array", "(descr [('a', '<f8'), ('b', '<i4')])", "each field"});
}

TEST_F(NpyTest, BudgetIsCheckedBeforeReading) {
  const auto path = golden / "type_float64.npy";
  expect_same(read_npy(path, 48), counting<double>({2, 3}));
  expect_error([&] { read_npy(path, 47); }, {path.string(), "48 bytes", "47 bytes"}, ErrorCode::memory);
}

TEST_F(NpyTest, TooManyDimensionsAreNotWritten) {
  const Array array(DType::f64, std::vector<Index>(65, 1));
  expect_error([&] { write_npy(folder / "a.npy", array); }, {"65 dimensions", "64"});
  EXPECT_TRUE(names().empty());
}

}  // namespace headlens::test

// What the tests of src/io share: a folder that cleans up after itself, files as bytes, and arrays to write.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "headlens/array.hpp"
#include "headlens/error.hpp"

namespace headlens::test {

inline const std::filesystem::path golden = std::filesystem::path(HEADLENS_TEST_DIR) / "io" / "golden";

inline std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::span<const std::byte> as_span(const std::string& bytes) {
  return std::as_bytes(std::span(bytes.data(), bytes.size()));
}

class FolderTest : public ::testing::Test {
 protected:
  FolderTest() {
    std::string name =
        (std::filesystem::temp_directory_path() / "headlens-io-").string() + std::string(6, 'X');
    folder = ::mkdtemp(name.data());
  }
  ~FolderTest() override { std::filesystem::remove_all(folder); }

  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      found.push_back(entry.path().filename());
    return found;
  }

  std::filesystem::path folder;
};

// Runs `act`, which must throw an Error of one line that holds every fragment.
inline void expect_error(const std::function<void()>& act, std::initializer_list<std::string> fragments,
                         ErrorCode code = ErrorCode::misuse) {
  try {
    act();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.code(), code) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    for (const std::string& fragment : fragments)
      EXPECT_NE(text.find(fragment), std::string::npos) << "'" << fragment << "' is not in: " << text;
  }
}

inline constexpr DType all_types[] = {DType::f32, DType::f64, DType::i8,     DType::i16,
                                      DType::i32, DType::i64, DType::u8,     DType::u16,
                                      DType::u32, DType::u64, DType::boolean};

inline const std::vector<std::vector<Index>> all_shapes = {
    {}, {0}, {1}, {5}, {2, 3}, {0, 3}, {3, 0}, {2, 0, 3}, {2, 3, 4}, {1, 1, 1}, {1, 2, 3, 4}, {2, 1, 0, 5}};

// Every byte different from its neighbours; booleans stay 0 and 1.
inline Array patterned(DType type, const std::vector<Index>& shape) {
  Array array(type, shape);
  auto* bytes = static_cast<unsigned char*>(array.raw());
  for (std::size_t i = 0; i < array.bytes(); ++i)
    bytes[i] = static_cast<unsigned char>(type == DType::boolean ? i % 2 : 7 + 37 * i);
  return array;
}

// 0, 1, 2, ... as the golden files have them.
template <class T>
Array counting(const std::vector<Index>& shape) {
  Array array(dtype_of<T>(), shape);
  std::iota(array.data<T>(), array.data<T>() + array.size(), T{0});
  return array;
}

inline void expect_same(const Array& found, const Array& wanted) {
  EXPECT_EQ(found.dtype(), wanted.dtype());
  EXPECT_EQ(found.shape(), wanted.shape());
  ASSERT_EQ(found.bytes(), wanted.bytes());
  EXPECT_TRUE(found.bytes() == 0 || std::memcmp(found.raw(), wanted.raw(), found.bytes()) == 0);
}

}  // namespace headlens::test

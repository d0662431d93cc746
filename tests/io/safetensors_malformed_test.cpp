// safetensors files that lie.
#include "files.hpp"
#include "io/safetensors.hpp"
#include "zip_builder.hpp"

namespace headlens::test {
namespace {

void refuse_bytes(const std::string& bytes, std::initializer_list<std::string> fragments) {
  const auto parse = [&] {
    io::MemoryReader in(as_span(bytes), "model");
    io::read_safetensors(in);
  };
  SCOPED_TRACE(bytes.substr(0, 200));
  expect_error(parse, {"model: "});
  expect_error(parse, fragments);
}

void refuse(const std::string& json, std::initializer_list<std::string> fragments,
            std::size_t data_bytes = 8) {
  refuse_bytes(little(json.size(), 8) + json + std::string(data_bytes, '\0'), fragments);
}

std::string tensor(const std::string& type, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

}  // namespace

TEST(SafetensorsMalformed, Beginnings) {
  refuse_bytes("", {"not a safetensors file", "empty"});
  refuse_bytes("1234567", {"not a safetensors file", "7 bytes"});
  refuse_bytes("hello, this is no such file", {"not a safetensors file", "only 19 follow"});
  refuse_bytes(little(UINT64_MAX, 8) + "{}", {"18446744073709551615 bytes", "only 2 follow"});
  refuse_bytes(little(100'000'001, 8) + std::string(100'000'001, ' '),
               {"100000001 bytes", "allowed are 100000000"});
  refuse_bytes(little(0, 8), {"not a safetensors file", "not JSON"});
}

TEST(SafetensorsMalformed, Json) {
  for (const char* json :
       {"{", "{]", "{\"a\"", "{} x", "{\"a\":{\"shape\":[NaN]}}", "{\"a\":{\"shape\":[Infinity]}}", "{'a':1}",
        "{\"\xff\":{}}", "{\"a\":{\"shape\":[1e999]}}", "{\"a\n\":{}}", "{/**/}"})
    refuse(json, {"not a safetensors file: its header is not valid JSON at byte"});
  for (const char* json : {"", "[]", "null", " {}", "\xef\xbb\xbf{}"})
    refuse(json, {"not a safetensors file", "not JSON"});
  refuse(std::string("{}\0\0", 4), {"not JSON"});
}

TEST(SafetensorsMalformed, DeepNesting) {
  refuse("{\"a\":" + std::string(1'000'000, '['), {"a: is a list"});
  refuse("{\"a\":{\"shape\":" + std::string(1'000'000, '['), {"a: its shape is a list"});
  std::string objects = "{";
  for (int i = 0; i < 100'000; ++i) objects += "\"a\":{";
  refuse(objects, {"a: "});
}

TEST(SafetensorsMalformed, Structure) {
  refuse(R"({"a":1})", {"a: is a number, expected an object"});
  refuse(R"({"a":null})", {"a: is null"});
  refuse(R"({"a":"F32"})", {"a: is text"});
  refuse(R"({"a":[]})", {"a: is a list"});
  refuse(R"({"a":{}})", {"a: has no 'dtype'"});
  refuse(R"({"a":{"dtype":"F64","shape":[1]}})", {"a: has no 'data_offsets'"});
  refuse(R"({"a":{"dtype":"F64","dtype":"F64"}})", {"a: has 'dtype' twice"});
  refuse(R"({"a":{"more":1}})", {"a: has the unknown field 'more'"});
  refuse(R"({"a":{"dtype":["F64"]}})", {"a: its dtype is a list"});
  refuse(R"({"a":{"dtype":true}})", {"a: its dtype is true or false"});
  refuse(R"({"a":{"shape":{}}})", {"a: its shape is an object"});
  refuse(R"({"a":{"shape":["1"]}})", {"a: its shape is text"});
  refuse(R"({"a":{"shape":[[1]]}})", {"a: its shape is a list"});
  const std::string honest = tensor("F64", "[1]", "[0,8]");
  refuse("{\"a\":" + honest + ",\"a\":" + honest + "}", {"a: appears twice"});
  refuse(R"({"a\nb":1})", {"a\\x0ab: is a number"});
}

TEST(SafetensorsMalformed, Metadata) {
  refuse(R"({"__metadata__":1})", {"__metadata__: is a number"});
  refuse(R"({"__metadata__":{"k":1}})", {"__metadata__: 'k' is a number, expected text"});
  refuse(R"({"__metadata__":{"k":[]}})", {"'k' is a list, expected text"});
  refuse(R"({"__metadata__":{"k":{}}})", {"'k' is an object, expected text"});
  refuse(R"({"__metadata__":{"k":"1","k":"2"}})", {"__metadata__: has 'k' twice"});
  refuse(R"({"__metadata__":{},"__metadata__":{}})", {"__metadata__ twice"});
}

TEST(SafetensorsMalformed, Numbers) {
  refuse("{\"a\":" + tensor("F8_E4M3", "[4]", "[0,4]") + "}",
         {"a: its dtype is 'F8_E4M3'", "allowed are F64"});
  refuse("{\"a\":" + tensor("F64", "[-1]", "[0,8]") + "}", {"a: its shape holds a negative number"});
  refuse("{\"a\":" + tensor("F64", "[1.0]", "[0,8]") + "}",
         {"a: its shape holds a number that is no 64-bit integer"});
  refuse("{\"a\":" + tensor("F64", "[99999999999999999999]", "[0,8]") + "}", {"no 64-bit integer"});
  refuse("{\"a\":" + tensor("F64", "[18446744073709551615]", "[0,8]") + "}",
         {"18446744073709551615, too large"});
  refuse("{\"a\":" + tensor("F64", "[4294967296,4294967296]", "[0,8]") + "}", {"too large"});
  refuse("{\"a\":" + tensor("F64", "[2]", "[0,8]") + "}", {"a: its data_offsets are 0 to 8", "16 bytes"});
  refuse("{\"a\":" + tensor("F64", "[1]", "[8,0]") + "}", {"a: its data_offsets are 8 to 0"});
  refuse("{\"a\":" + tensor("F64", "[1]", "[0]") + "}", {"a: has 1 data_offsets, expected 2"});
  refuse("{\"a\":" + tensor("F64", "[1]", "[0,8,8]") + "}", {"a: has 3 data_offsets, expected 2"});
  std::string ones = "[1";
  for (int i = 0; i < 64; ++i) ones += ",1";
  refuse("{\"a\":" + tensor("F64", ones + "]", "[0,8]") + "}", {"a: its shape has more than 64 numbers"});
}

TEST(SafetensorsMalformed, TensorsMustTileTheData) {
  const auto two = [](const std::string& first, const std::string& second) {
    return "{\"a\":" + tensor("F32", "[1]", first) + ",\"b\":" + tensor("F32", "[1]", second) + "}";
  };
  refuse(two("[0,4]", "[0,4]"), {"b: its data begin at byte 0", "end at 4"});
  refuse(two("[0,4]", "[2,6]"), {"b: its data begin at byte 2", "end at 4"});
  refuse(two("[0,4]", "[5,9]"), {"b: its data begin at byte 5", "end at 4"});
  refuse(two("[1,5]", "[5,9]"), {"a: its data begin at byte 1", "end at 0"});
  refuse(two("[0,4]", "[4,8]"), {"take 8 bytes, but 7 follow", "cut off"}, 7);
  refuse(two("[0,4]", "[4,8]"), {"take 8 bytes, but 9 follow"}, 9);
  refuse("{}", {"take 0 bytes, but 8 follow"});
  refuse("{\"a\":" + tensor("U8", "[1099511627776]", "[0,1099511627776]") + "}",
         {"take 1099511627776 bytes"});
}

}  // namespace headlens::test

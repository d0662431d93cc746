#include "io/safetensors_header.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "headlens/error.hpp"
#include "io/allocation.hpp"
#include "io/printable.hpp"

namespace headlens::io {
namespace {

struct TensorType {
  std::string_view name;
  DType type;
  StoredAs stored = StoredAs::itself;
};
constexpr std::array<TensorType, 13> tensor_types{{{"F64", DType::f64},
                                                   {"F32", DType::f32},
                                                   {"I64", DType::i64},
                                                   {"I32", DType::i32},
                                                   {"I16", DType::i16},
                                                   {"I8", DType::i8},
                                                   {"U64", DType::u64},
                                                   {"U32", DType::u32},
                                                   {"U16", DType::u16},
                                                   {"U8", DType::u8},
                                                   {"BOOL", DType::boolean},
                                                   {"BF16", DType::f32, StoredAs::bfloat16},
                                                   {"F16", DType::f32, StoredAs::float16}}};
constexpr std::array<std::string_view, 3> fields{"dtype", "shape", "data_offsets"};

// One tensor as it was found.
struct Draft {
  std::set<std::string, std::less<>> seen;
  std::string type;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> offsets;
};

// Receives the events of nlohmann's parser, one function per event; their names are its.
class HeaderHandler {
 public:
  explicit HeaderHandler(const std::string& label) : label_(label) {}
  SafetensorsHeader take() { return std::move(header_); }

  bool start_object(std::size_t) {
    if (depth_ == 2) fail_entry("is an object");
    ++depth_;
    in_metadata_ = depth_ == 2 && name_ == metadata_key;
    draft_ = {};
    return true;
  }
  bool end_object() {
    if (depth_ == 2 && !in_metadata_) finish_tensor();
    --depth_;
    return true;
  }
  bool key(std::string& key) {
    (depth_ == 1 ? name_ : field_) = key;
    if (depth_ == 1 && key == metadata_key && std::exchange(has_metadata_, true))
      fail("has __metadata__ twice");
    if (depth_ == 1 && header_.tensors.contains(key)) fail_tensor("appears twice");
    if (depth_ == 2) check_field();
    return true;
  }
  bool start_array(std::size_t) {
    std::vector<std::uint64_t>* wanted = depth_ == 2 && !in_metadata_ ? list_of(field_) : nullptr;
    if (wanted == nullptr || list_ != nullptr) fail_entry("is a list");
    list_ = wanted;
    return true;
  }
  bool end_array() {
    list_ = nullptr;
    return true;
  }
  bool string(std::string& value) {
    if (depth_ == 2 && in_metadata_) {
      header_.metadata[field_] = value;
    } else if (depth_ == 2 && field_ == "dtype") {
      draft_.type = value;
    } else {
      fail_entry("is text");
    }
    return true;
  }
  bool number_unsigned(std::uint64_t value) {
    if (list_ == nullptr) fail_entry("is a number");
    if (list_->size() >= max_rank) fail_entry(fmt::format("has more than {} numbers", max_rank));
    list_->push_back(value);
    return true;
  }
  bool number_integer(std::int64_t) { fail_entry("holds a negative number"); }
  bool number_float(double, const std::string&) { fail_entry("holds a number that is no 64-bit integer"); }
  bool null() { fail_entry("is null"); }
  bool boolean(bool) { fail_entry("is true or false"); }
  bool binary(nlohmann::json::binary_t&) { fail_entry("is binary"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) {
    throw Error(
        ErrorCode::misuse,
        fmt::format("{}: not a safetensors file: its header is not valid JSON at byte {}", label_, position));
  }

 private:
  std::vector<std::uint64_t>* list_of(const std::string& field) {
    if (field == "shape") return &draft_.shape;
    return field == "data_offsets" ? &draft_.offsets : nullptr;
  }

  void check_field() {
    if (in_metadata_ && header_.metadata.contains(field_))
      fail_tensor("has '" + printable_name(field_) + "' twice");
    if (in_metadata_) return;
    if (std::ranges::find(fields, field_) == fields.end())
      fail_tensor("has the unknown field '" + printable_name(field_) + "'");
    if (!draft_.seen.insert(field_).second) fail_tensor("has '" + field_ + "' twice");
  }

  void finish_tensor() {
    for (const std::string_view field : fields)
      if (!draft_.seen.contains(field)) fail_tensor(fmt::format("has no '{}'", field));
    const auto type = std::ranges::find(tensor_types, draft_.type, &TensorType::name);
    if (type == tensor_types.end())
      fail_tensor(
          fmt::format("its dtype is '{}'; allowed are F64, F32, BF16, F16, I64 to I8, U64 to U8 and BOOL",
                      printable_name(draft_.type)));
    const std::vector<Index> shape = checked_shape();
    const auto bytes = byte_count(type->stored == StoredAs::itself ? type->type : DType::u16, shape);
    if (!bytes || !byte_count(type->type, shape))
      fail_tensor(fmt::format("shape {} of {} is too large", format_shape(shape), draft_.type));
    if (draft_.offsets.size() != 2)
      fail_tensor(fmt::format("has {} data_offsets, expected 2", draft_.offsets.size()));
    const std::uint64_t begin = draft_.offsets[0];
    const std::uint64_t end = draft_.offsets[1];
    if (end < begin || end - begin != *bytes)
      fail_tensor(fmt::format("its data_offsets are {} to {}, but {} {} takes {} bytes", begin, end,
                              draft_.type, format_shape(shape), *bytes));
    header_.tensors[name_] = {type->type, shape, begin, end, type->stored};
  }

  std::vector<Index> checked_shape() const {
    std::vector<Index> shape;
    for (const std::uint64_t n : draft_.shape) {
      if (n > PTRDIFF_MAX) fail_tensor(fmt::format("has the dimension {}, too large for this machine", n));
      shape.push_back(static_cast<Index>(n));
    }
    return shape;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::misuse, fmt::format("{}: the header {}", label_, what));
  }
  [[noreturn]] void fail_tensor(const std::string& what) const {
    throw Error(ErrorCode::misuse, fmt::format("{}: {}: {}", label_, printable_name(name_), what));
  }
  // A value of the wrong type, named by where it stands.
  [[noreturn]] void fail_entry(const std::string& what) const {
    if (depth_ == 0) fail(what + ", expected an object");
    if (depth_ == 1) fail_tensor(what + ", expected an object");
    if (in_metadata_) fail_tensor(fmt::format("'{}' {}, expected text", printable_name(field_), what));
    fail_tensor(
        fmt::format("its {} {}; expected are a dtype that is text, and a shape and data_offsets that are "
                    "lists of non-negative integers",
                    field_, what));
  }

  const std::string& label_;
  SafetensorsHeader header_;
  int depth_ = 0;  // of objects: 1 in the header, 2 in a tensor or the metadata
  std::string name_;
  std::string field_;
  bool in_metadata_ = false;
  bool has_metadata_ = false;
  Draft draft_;
  std::vector<std::uint64_t>* list_ = nullptr;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view json, const std::string& label) {
  // nlohmann takes a NUL for the end and skips a byte order mark; the format allows neither.
  require(json.starts_with('{') && json.find('\0') == std::string_view::npos, label,
          ": not a safetensors file: its header is not JSON");
  HeaderHandler handler(label);
  nlohmann::json::sax_parse(json.begin(), json.end(), &handler);
  return handler.take();
}

std::string_view safetensors_name(DType type) {
  return std::ranges::find(tensor_types, type, &TensorType::type)->name;
}

}  // namespace headlens::io

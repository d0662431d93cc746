#include "headlens/sets.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "reference/random_sets.hpp"
#include "reference/refusal.hpp"

namespace headlens {
namespace {

using namespace reference;
using testing::HasSubstr;

TEST(Sets, RectangularAndRaggedHoldTheSame) {
  const Array query = normal_array<double>({4, 3}, 1), keys = normal_array<double>({4, 5, 3}, 2);
  const Sets a = Sets::from_arrays(query, keys);
  const Sets b = Sets::from_ragged(
      query, Array(DType::f64, {20, 3}, std::shared_ptr<void>(const_cast<void*>(keys.raw()), [](void*) {})),
      {0, 5, 10, 15, 20});
  EXPECT_TRUE(a.equal_sizes() && b.equal_sizes());
  for (Index s = 0; s < 4; ++s) {
    std::vector<double> q1(3), q2(3), k1(15), k2(15);
    a.copy_set(s, q1.data(), k1.data(), 3);
    b.copy_set(s, q2.data(), k2.data(), 3);
    EXPECT_EQ(q1, q2);
    EXPECT_EQ(k1, k2);
  }
}

template <class T>
Array with_query_first(const Array& query, const Array& keys) {
  const Index n = keys.dim(0), size = keys.dim(1), d = keys.dim(2);
  Array tokens(dtype_of<T>(), {n, 1 + size, d});
  for (Index i = 0; i < n; ++i)
    for (Index t = 0; t <= size; ++t)
      for (Index j = 0; j < d; ++j)
        tokens.data<T>()[(i * (1 + size) + t) * d + j] =
            static_cast<T>(t == 0 ? query.at(i * d + j) : keys.at((i * size + t - 1) * d + j));
  return tokens;
}

TEST(Sets, TokensWithTheQueryFirstHoldTheSame) {
  const auto check = [](auto item) {
    using T = decltype(item);
    const Array query = normal_array<T>({4, 3}, 1), keys = normal_array<T>({4, 5, 3}, 2);
    const Sets a = Sets::from_arrays(query, keys), b = Sets::from_tokens(with_query_first<T>(query, keys));
    EXPECT_EQ(b.count(), 4);
    EXPECT_EQ(b.total_keys(), 20);
    EXPECT_TRUE(b.equal_sizes() && b.is_query_first() && !b.is_sequence());
    for (Index s = 0; s < 4; ++s) {
      std::vector<double> q1(3), q2(3), k1(15), k2(15);
      a.copy_set(s, q1.data(), k1.data(), 3);
      b.copy_set(s, q2.data(), k2.data(), 3);
      EXPECT_EQ(q1, q2);
      EXPECT_EQ(k1, k2);
      EXPECT_EQ(b.key_position(s, 2), 2);
    }
  };
  check(float());
  check(double());
}

TEST(Sets, TokensWithTheQueryFirstAreBorrowedAndSavedApart) {
  const Array query = normal_array<float>({4, 3}, 1), keys = normal_array<float>({4, 5, 3}, 2);
  const Array tokens = with_query_first<float>(query, keys);
  const Sets sets = Sets::from_tokens(tokens);
  EXPECT_EQ(sets.query().raw(), tokens.raw());
  const auto file = std::filesystem::temp_directory_path() / ("tokens-" + std::to_string(getpid()) + ".npz");
  save_sets(file, {sets, make_targets(normal_array<float>({4}, 3), sets)});
  const LabelledSets back = load_labelled_sets(file, DataLayout::sets, {});
  std::filesystem::remove(file);
  EXPECT_EQ(back.sets.query().to_doubles(), query.to_doubles());
  EXPECT_EQ(back.sets.keys().to_doubles(), keys.to_doubles());
}

TEST(Sets, SequencesLeaveOutTheQuery) {
  const Array tokens = normal_array<float>({2, 3, 2}, 1);
  const Sets sets = Sets::from_sequence(tokens);
  EXPECT_EQ(sets.count(), 6);
  EXPECT_EQ(sets.keys_of(0), 2);
  std::vector<float> query(2), keys(4);
  sets.copy_set(4, query.data(), keys.data(), 2);  // second sequence, middle token
  EXPECT_EQ(query[0], tokens.at(8));
  EXPECT_EQ(keys[0], tokens.at(6));
  EXPECT_EQ(keys[2], tokens.at(10));
  EXPECT_EQ(sets.key_position(4, 0), 0);
  EXPECT_EQ(sets.key_position(4, 1), 2);
}

TEST(Sets, ErrorsNameTheFileAndTheNumbers) {
  const Array query = normal_array<double>({4, 3}, 1), keys = normal_array<double>({4, 5, 3}, 2);
  EXPECT_THAT(refusal_of([&] {
                Sets::from_arrays(normal_array<double>({4, 2}, 1), keys, "a.npz");
              }),
              testing::AllOf(HasSubstr("a.npz"), HasSubstr("(4, 2)"), HasSubstr("(4, 5, 3)")));
  EXPECT_THAT(refusal_of([&] { Sets::from_arrays(query, normal_array<double>({4}, 2), "a.npz"); }),
              HasSubstr("(4,)"));
  EXPECT_THAT(refusal_of([&] {
                Sets::from_arrays(Array(DType::f64, {0, 3}), Array(DType::f64, {0, 5, 3}));
              }),
              HasSubstr("no sets"));
  EXPECT_THAT(refusal_of([&] {
                Sets::from_arrays(query, Array(DType::f64, {4, 0, 3}));
              }),
              HasSubstr("at least one key"));
  const Array flat = normal_array<double>({9, 3}, 2);
  const auto ragged = [&](std::vector<std::int64_t> offsets) {
    return refusal_of([&] { Sets::from_ragged(query, flat, offsets); });
  };
  EXPECT_THAT(ragged({0, 3, 6, 9}), HasSubstr("expected 5"));
  EXPECT_THAT(ragged({1, 3, 6, 7, 9}), HasSubstr("offsets[0] is 1"));
  EXPECT_THAT(ragged({0, 3, 3, 7, 9}), HasSubstr("at least one key"));
  EXPECT_THAT(ragged({0, 5, 3, 7, 9}), HasSubstr("offsets[1] is 5"));
  EXPECT_THAT(ragged({0, 3, 6, 7, 99}), HasSubstr("offsets end at 99"));
  EXPECT_THAT(refusal_of([&] {
                Sets::from_sequence(normal_array<double>({2, 1, 3}, 1));
              }),
              HasSubstr("at least two tokens"));
  EXPECT_THAT(refusal_of([&] {
                Sets::from_tokens(normal_array<double>({2, 1, 3}, 1), "X");
              }),
              testing::AllOf(HasSubstr("X: "), HasSubstr("at least two tokens")));
  EXPECT_THAT(refusal_of([&] { Sets::from_tokens(normal_array<double>({4}, 1)); }),
              HasSubstr("(n, 1 + N, d)"));
  EXPECT_THAT(refusal_of([&] { Sets::from_tokens(Array(DType::f64, {0, 2, 3})); }), HasSubstr("empty"));
}

TEST(Sets, RefuseValuesThatAreNotFinite) {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    Array keys = normal_array<double>({4, 5, 3}, 2);
    keys.data<double>()[1 * 15 + 2 * 3 + 1] = bad;
    EXPECT_THAT(refusal_of([&] {
                  Sets::from_arrays(normal_array<double>({4, 3}, 1), keys);
                }),
                HasSubstr("keys[1, 2, 1]"));
    EXPECT_THAT(refusal_of([&] { Sets::from_tokens(keys); }), HasSubstr("tokens[1, 2, 1]"));
  }
}

TEST(Targets, AcceptVectorsAndMatricesAndNameTheShape) {
  const Sets sets = equal_sets<double>(4, 2, 3, 1);
  EXPECT_EQ(make_targets(normal_array<double>({4}, 1), sets).outputs, 1);
  EXPECT_EQ(make_targets(normal_array<double>({4, 2}, 1), sets).outputs, 2);
  EXPECT_TRUE(make_targets(Array::from<std::int64_t>({0, 1, 1, 0}, {4}), sets).integer);
  EXPECT_THAT(refusal_of([&] { make_targets(normal_array<double>({3}, 1), sets); }), HasSubstr("(3,)"));
  EXPECT_THAT(refusal_of([&] {
                make_targets(normal_array<double>({4, 0}, 1), sets);
              }),
              HasSubstr("at least one output"));
}

}  // namespace
}  // namespace headlens
